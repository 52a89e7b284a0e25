import Vocabulary

/// Why a text is not a value of its type, completing a sentence that begins with the key.
package struct ConfigurationTypeError: Error {
    var message: String

    package init(message: String) { self.message = message }
}

package struct ConfigurationType<Value> {
    /// The type's name in docs/configuration.md.
    package var name: String
    /// A stand-in for a missing or wrong value, so that reading continues to the next problem.
    var placeholder: Value
    /// The form of a value, for the JSON Schema.
    package var shape = ValueShape.text
    package var parse: (String) throws(ConfigurationTypeError) -> Value

    package init(
        name: String,
        placeholder: Value,
        shape: ValueShape = .text,
        parse: @escaping (String) throws(ConfigurationTypeError) -> Value
    ) {
        (self.name, self.placeholder, self.shape, self.parse) = (name, placeholder, shape, parse)
    }

    /// A type whose values are `wanted`, a noun phrase; `read` is nil for any other text.
    package init(
        name: String,
        placeholder: Value,
        shape: ValueShape = .text,
        wanted: String,
        read: @escaping (String) -> Value?
    ) {
        self.init(name: name, placeholder: placeholder, shape: shape) { text throws(ConfigurationTypeError) in
            if let value = read(text) { return value }
            throw .init(message: "must be \(wanted), not '\(ConfigurationType<String>.shown(text))'")
        }
    }
}

extension ConfigurationType where Value == String {
    /// Non-empty text without control characters.
    package static var text: Self {
        .init(name: "text", placeholder: "") { text throws(ConfigurationTypeError) in
            guard !text.isEmpty else { throw .init(message: "must not be empty") }
            guard !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
                throw .init(message: "must not contain control characters")
            }
            return text
        }
    }

    /// Text that satisfies a rule; `echoes` is false where people put credentials, and a wrong value is then not shown.
    package static func text(
        _ name: String,
        _ rule: String,
        echoes: Bool = true,
        _ holds: @escaping (String) -> Bool
    ) -> Self {
        .init(name: name, placeholder: "") { text throws(ConfigurationTypeError) in
            let text = try ConfigurationType.text.parse(text)
            guard holds(text) else {
                throw .init(message: "must be \(rule)" + (echoes ? ", not '\(Self.shown(text))'" : ""))
            }
            return text
        }
    }

    package static var network: Self { .text("CIDR", "a network such as 10.0.0.0/8") { Network($0) != nil } }

    /// A wrong value, shortened for problems.
    package static func shown(_ text: String) -> String {
        text.count > 60 ? text.prefix(60) + "…" : text
    }
}

extension ConfigurationType where Value == Int {
    /// A whole number within a range.
    package static func number(_ range: ClosedRange<Int>) -> Self {
        .init(
            name: "number \(range.lowerBound)-\(range.upperBound)",
            placeholder: range.lowerBound,
            shape: .number(range),
            wanted: "a whole number from \(range.lowerBound) to \(range.upperBound)"
        ) { text in
            Int(text).flatMap { range.contains($0) ? $0 : nil }
        }
    }

    /// A number of bytes, such as `256KiB`, within a range.
    package static func size(_ range: ClosedRange<Int>) -> Self {
        .init(name: "size", placeholder: range.lowerBound, shape: .size) { text throws(ConfigurationTypeError) in
            guard let size = Quantity.bytes(text) else {
                throw .init(message: "must be a size such as 256KiB, not '\(ConfigurationType<String>.shown(text))'")
            }
            guard range.contains(size) else {
                throw .init(
                    message: "must be from \(Quantity.text(bytes: range.lowerBound)) to "
                        + "\(Quantity.text(bytes: range.upperBound)), not \(text)"
                )
            }
            return size
        }
    }
}

extension ConfigurationType where Value == Duration {
    /// A duration, such as `30s`, within a range.
    package static func duration(_ least: String, _ most: String) -> Self {
        let range = (Quantity.duration(least) ?? .zero)...(Quantity.duration(most) ?? .zero)
        return .init(name: "duration \(least)-\(most)", placeholder: range.lowerBound, shape: .duration) {
            text throws(ConfigurationTypeError) in
            guard let duration = Quantity.duration(text) else {
                let shown = ConfigurationType<String>.shown(text)
                throw .init(message: "must be a duration such as 250ms, 30s, 15m, 12h or 30d, not '\(shown)'")
            }
            guard range.contains(duration) else {
                throw .init(message: "must be from \(least) to \(most), not \(text)")
            }
            return duration
        }
    }
}

extension ConfigurationType where Value == Bool {
    package static var flag: Self {
        .init(name: "`true` `false`", placeholder: false, shape: .flag, wanted: "true or false") { Bool($0) }
    }
}

extension ConfigurationType where Value: RawRepresentable<String> & CaseIterable {
    /// One of a closed set of words.
    package static func word(_ placeholder: Value) -> Self {
        let words = Value.allCases.map(\.rawValue)
        return .init(
            name: words.map { "`\($0)`" }.joined(separator: " "),
            placeholder: placeholder,
            shape: .words(words)
        ) {
            text throws(ConfigurationTypeError) in
            guard let value = Value(rawValue: text) else {
                let hint = Suggestion.nearest(to: text, among: words).map { "; did you mean '\($0)'?" } ?? ""
                let shown = ConfigurationType<String>.shown(text)
                throw .init(message: "must be one of \(words.joined(separator: ", ")), not '\(shown)'\(hint)")
            }
            return value
        }
    }
}

extension String {
    /// Whether it holds only ASCII letters, digits, and these characters.
    package func isAlphanumeric(or others: String) -> Bool {
        utf8.allSatisfy { $0.isLetterOrDigit || others.utf8.contains($0) }
    }
}

extension Sequence<String> {
    /// The non-empty texts that appeared before, once for each further time.
    package var repeated: [String] {
        var seen: Set<String> = []
        return filter { !$0.isEmpty && !seen.insert($0).inserted }
    }
}

enum Quantity {
    /// `250ms`, `30s`, `15m`, `12h`, `30d`: a whole number and one unit.
    static func duration(_ text: String) -> Duration? {
        guard let text = DurationText(text), text.unit != .weeks, text.count <= 1_000_000_000 else { return nil }
        return text.duration
    }

    /// `262144`, `512B`, `256KiB`, `4MiB`, `1GiB`.
    static func bytes(_ text: String) -> Int? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int(digits), number <= 1 << 31 else { return nil }
        return switch text.dropFirst(digits.count) {
        case "", "B": number
        case "KiB": number << 10
        case "MiB": number << 20
        case "GiB": number << 30
        default: nil
        }
    }

    /// A size in the largest unit that divides it evenly.
    static func text(bytes: Int) -> String {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] where bytes >= 1 << shift {
            if bytes & ((1 << shift) - 1) == 0 { return "\(bytes >> shift)\(unit)" }
        }
        return "\(bytes)B"
    }
}
