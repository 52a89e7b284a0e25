import Vocabulary
import XMPP

/// Why a text is not a value of its type, completing a sentence that begins with the key.
struct ConfigurationTypeError: Error {
    var message: String
}

/// Parses a key's text.
struct ConfigurationType<Value> {
    /// The type's name in docs/configuration.md.
    var name: String
    /// A stand-in for a missing or wrong value, so that reading continues to the next problem.
    var placeholder: Value
    /// The form of a value, for the JSON Schema.
    var shape = ValueShape.text
    var parse: (String) throws(ConfigurationTypeError) -> Value
}

extension ConfigurationType where Value == String {
    /// Non-empty text without control characters.
    static var text: Self {
        .init(name: "text", placeholder: "") { text throws(ConfigurationTypeError) in
            guard !text.isEmpty else { throw .init(message: "must not be empty") }
            guard !text.unicodeScalars.contains(where: { $0.properties.generalCategory == .control }) else {
                throw .init(message: "must not contain control characters")
            }
            return text
        }
    }

    /// Text that satisfies a rule.
    ///
    /// - Parameters:
    ///   - name: The type's name in docs/configuration.md.
    ///   - rule: What the text must be.
    ///   - echoes: Whether a wrong value is shown; false where people put credentials.
    ///   - holds: Whether a text satisfies the rule.
    /// - Returns: The type.
    static func text(
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

    /// A range of IP addresses.
    static var network: Self { .text("CIDR", "a network such as 10.0.0.0/8") { Network($0) != nil } }

    /// An XMPP address (RFC 7622): a domain, an account, an account's resource, or all accounts of a domain.
    static var address: Self {
        .text("text", "an XMPP address such as devices@example.org, example.org or *@example.org", isAddress)
    }

    /// Whether a text is an address, by stricter rules than for streams, to catch typing mistakes.
    private static func isAddress(_ text: String) -> Bool {
        guard let address = JID(text) else { return false }
        // What a localpart can't hold: RFC 7622 section 3.3.1.
        let local = address.local ?? []
        // A localpart may hold an asterisk, which would not mean what it seems to.
        let hasLocal =
            local == Array("*".utf8)
            ? address.resource == nil : !local.contains { "\"&'/:<>@ *".utf8.contains($0) || $0 < 0x20 }
        let domain = String(decoding: address.domain, as: UTF8.self)
        let labels = domain.split(separator: ".", omittingEmptySubsequences: false)
        let isLiteral = domain.hasPrefix("[") && domain.hasSuffix("]")
        let hasDomain =
            isLiteral
            || labels.allSatisfy { label in
                !label.isEmpty && label.utf8.count <= 63
                    && label.unicodeScalars.allSatisfy { scalar in
                        !scalar.isASCII || scalar == "-" || scalar.properties.isAlphabetic
                            || ("0"..."9").contains(scalar)
                    }
            }
        // A resource may hold nearly anything (section 3.4), but no space at its ends.
        let resource = address.resource.map { String(decoding: $0, as: UTF8.self) } ?? ""
        return hasLocal && hasDomain && !resource.hasPrefix(" ") && !resource.hasSuffix(" ")
    }

    /// A wrong value, shortened for problems.
    static func shown(_ text: String) -> String {
        text.count > 60 ? text.prefix(60) + "…" : text
    }
}

extension ConfigurationType where Value == Int {
    /// A whole number within a range.
    static func number(_ range: ClosedRange<Int>) -> Self {
        .init(
            name: "number \(range.lowerBound)-\(range.upperBound)",
            placeholder: range.lowerBound,
            shape: .number(range)
        ) {
            text throws(ConfigurationTypeError) in
            guard let number = Int(text), range.contains(number) else {
                let wanted = "a whole number from \(range.lowerBound) to \(range.upperBound)"
                throw .init(message: "must be \(wanted), not '\(ConfigurationType<String>.shown(text))'")
            }
            return number
        }
    }

    /// A number of bytes, such as `256KiB`, within a range.
    static func size(_ range: ClosedRange<Int>) -> Self {
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
    static func duration(_ least: String, _ most: String) -> Self {
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
    /// `true` or `false`.
    static var flag: Self {
        .init(name: "`true` `false`", placeholder: false, shape: .flag) { text throws(ConfigurationTypeError) in
            guard let value = Bool(text) else {
                throw .init(message: "must be true or false, not '\(ConfigurationType<String>.shown(text))'")
            }
            return value
        }
    }
}

extension ConfigurationType where Value: RawRepresentable<String> & CaseIterable {
    /// One of a closed set of words.
    static func word(_ placeholder: Value) -> Self {
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

/// Numbers with a unit, as the configuration writes them.
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
