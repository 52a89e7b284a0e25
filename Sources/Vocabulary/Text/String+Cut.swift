extension String {
    /// The text, cut between characters to at most this many bytes of UTF-8.
    package func cut(to limit: Int) -> String {
        guard utf8.count > limit else { return self }
        var end = utf8.index(startIndex, offsetBy: limit)
        while end.samePosition(in: unicodeScalars) == nil { end = utf8.index(before: end) }
        return String(self[..<end])
    }
}

extension [String?] {
    /// The texts there are, each after a comma: a filter's conditions behind what they are about.
    package var afterCommas: String { compactMap(\.self).map { ", " + $0 }.joined() }
}
