/// What the values of a key look like, for the JSON Schema.
enum ValueShape: Sendable, Equatable {
    /// Any text.
    case text
    /// Text that may look like a number, such as a sender's id.
    case id
    /// A whole number.
    case number(ClosedRange<Int>)
    /// A part of a whole, from 0 to 1.
    case ratio
    /// `true` or `false`.
    case flag
    /// One of these words.
    case words([String])
    /// A number of bytes, such as `256KiB`.
    case size
    /// A duration, such as `30s`.
    case duration
}

/// A mapping of keys, or a list of such mappings.
struct ConfigurationSection: Sendable, Equatable {
    /// The dotted path, with `N` for a place in a list, but not for one in this list itself.
    var path: String
    /// Whether it is a list of mappings.
    var isList: Bool
    /// Sections of the mapping with this path of which exactly one has to be there; empty for none.
    var oneOf: [String] = []
}

/// Every key and every section there is, in the order in which they are read.
struct ConfigurationDescription: Sendable {
    var keys: [ConfigurationKey]
    var sections: [ConfigurationSection]
}

/// The configuration as a command would use it: every key with its value and where that comes from.
package struct EffectiveConfiguration: Sendable {
    /// The file.
    package var path: String
    /// The values, in the order of the table.
    package var values: [EffectiveValue]
    /// What is wrong with them; files that are named were not looked at.
    package var problems: [ConfigurationProblem]
}

/// A key's value; never a secret.
package struct EffectiveValue: Sendable, Equatable {
    /// What stands there, as text.
    package enum Value: Sendable, Equatable {
        /// One value.
        case text(String)
        /// A list.
        case list([String])
    }

    /// The key's path.
    package var key: String
    /// The value; nil where there is neither one nor a default that is one.
    package var value: Value?
    /// Where it comes from; ``ConfigurationOrigin/absent`` for a default.
    package var origin: ConfigurationOrigin
    /// The default in words, where it is not a value.
    package var note: String

    /// Whether it is the default.
    package var isDefault: Bool { origin == .absent }

    /// Where it comes from: `default`, `worker.yaml:4`, `environment UPSTREAM_LOG__LEVEL`, `flag --set`.
    package var source: String {
        switch origin {
        case .absent: "default"
        case .file(let path, let line, _): "\(path):\(line)"
        case .environment, .flag: origin.description
        }
    }
}

/// Hides what values may hold that is a credential: the configuration itself refuses most of it, and still shows it nowhere.
enum ConfigurationMask {
    /// What stands in place of a credential.
    static let mark = "***"

    /// A value fit to be shown.
    ///
    /// - Parameters:
    ///   - text: The value.
    ///   - key: Its key's path.
    /// - Returns: The value; of URLs without passwords and without what their queries hold beside libpq's settings.
    static func shown(_ text: String, of key: String) -> String {
        let name = key.split(separator: ".").last ?? ""
        if name == "headers" { return header(text) }
        guard name.hasSuffix("url") || name.hasSuffix("endpoint") else { return text }
        let read = CredentialText(text)
        guard read.scheme.isEmpty, key.hasSuffix("database.url") else { return address(read) }
        // `key=value`: to the end, so that no quoting can hide where the password stops.
        guard let equals = CredentialText.passwordSetting(in: read.rest) else {
            return read.passwordColon == nil ? text : address(read)
        }
        return text[...equals] + mark
    }

    /// A URL, or what was meant as one.
    private static func address(_ read: CredentialText) -> String {
        let isDatabase = read.scheme.lowercased().hasPrefix("postgres")
        var shown = String(read.scheme)
        var tail = read.rest
        if let colon = read.passwordColon {
            // To the last `@`, wherever it stands: rather too little is shown than a part of a password.
            let isUserShown = isDatabase || read.user.map { $0.contains(":") } ?? true
            if isUserShown { shown += read.rest[...colon] }
            shown += mark
            guard let at = read.head.lastIndex(of: "@"), at == read.rest.lastIndex(of: "@") else { return shown }
            tail = read.rest[at...]
        } else if let user = read.user, !isDatabase {
            shown += mark
            tail = read.rest[user.endIndex...]
        }
        let place = tail.prefix { $0 != "?" }
        shown += place
        // Behind the place: the user may hold a question mark.
        guard place.endIndex < tail.endIndex else { return shown }
        let pairs = tail[place.endIndex...].dropFirst().split(separator: "&", omittingEmptySubsequences: false)
        return shown + "?" + pairs.map { setting($0, isDatabase) }.joined(separator: "&")
    }

    /// A setting of a query: libpq's are shown, unless they are secrets or may be the rest of one.
    private static func setting(_ pair: Substring, _ isDatabase: Bool) -> String {
        let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let isHarmless =
            isDatabase && !pair.contains("@") && !parts[0].contains("%") && !CredentialText.isPassword(parts[0])
        if isHarmless { return String(pair) }
        return parts.count == 2 ? parts[0] + "=" + mark : mark
    }

    /// A header's name without its value.
    private static func header(_ text: String) -> String {
        guard let colon = text.firstIndex(where: { $0 == ":" || $0 == "=" }) else { return mark }
        return text[...colon] + " " + mark
    }
}
