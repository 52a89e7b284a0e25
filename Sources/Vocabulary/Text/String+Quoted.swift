extension String {
    /// The text in quotation marks, with `mark` before each of these and before itself.
    ///
    /// By code point, as other programs read it: a quotation mark with an accent is a character of its own.
    package func quoted(escapingWith mark: Unicode.Scalar) -> String {
        var quoted = "\"".unicodeScalars
        for scalar in unicodeScalars {
            if scalar == "\"" || scalar == mark { quoted.append(mark) }
            quoted.append(scalar)
        }
        quoted.append("\"")
        return String(quoted)
    }
}
