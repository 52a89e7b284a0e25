/// A key's value; never a secret.
package struct EffectiveValue: Sendable, Equatable {
    package enum Value: Sendable, Equatable {
        case text(String)
        case list([String])
    }

    package var key: String
    /// The value; nil without a value and without a default value.
    package var value: Value?
    /// Its origin; ``ConfigurationOrigin/absent`` for a default.
    package var origin: ConfigurationOrigin
    /// The default in words, if it is not a value.
    package var note: String

    package var isDefault: Bool { origin == .absent }

    /// Its origin as text: `default`, `worker.yaml:4`, `environment UPSTREAM_LOG__LEVEL`, `flag --set`.
    package var source: String {
        switch origin {
        case .absent: "default"
        case .file(let path, let line, _): "\(path):\(line)"
        case .environment, .flag: origin.description
        }
    }
}

/// Masks credentials in values: the configuration refuses most of them, and still shows none.
enum ConfigurationMask {
    static let mark = "***"

    /// A value that can be shown: URLs without passwords, and without query settings other than libpq's.
    static func shown(_ text: String, of key: String) -> String {
        let name = key.split(separator: ".").last ?? ""
        if name == "headers" { return header(text) }
        guard name.hasSuffix("url") || name.hasSuffix("endpoint") else { return text }
        let read = CredentialText(text)
        guard read.scheme.isEmpty, key.hasSuffix("database.url") || key.hasSuffix("database.read_url") else {
            return address(read)
        }
        // `key=value`: masked to the end, so that quoting can't hide where the password ends.
        guard let equals = CredentialText.passwordSetting(in: read.rest) else {
            return read.passwordColon == nil ? text : address(read)
        }
        return text[...equals] + mark
    }

    private static func address(_ read: CredentialText) -> String {
        let isDatabase = read.scheme.lowercased().hasPrefix("postgres")
        var shown = String(read.scheme)
        var tail = read.rest
        if let colon = read.passwordColon {
            // To the last `@`, wherever it is: better too little is shown than a part of a password.
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
        // After the place: the user may contain a question mark.
        guard place.endIndex < tail.endIndex else { return shown }
        let pairs = tail[place.endIndex...].dropFirst().split(separator: "&", omittingEmptySubsequences: false)
        return shown + "?" + pairs.map { setting($0, isDatabase) }.joined(separator: "&")
    }

    /// A query setting: libpq's are shown, unless they are secrets or may be the rest of one.
    private static func setting(_ pair: Substring, _ isDatabase: Bool) -> String {
        let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let isHarmless =
            isDatabase && !pair.contains("@") && !parts[0].contains("%") && !CredentialText.isPassword(parts[0])
        if isHarmless { return String(pair) }
        return parts.count == 2 ? parts[0] + "=" + mark : mark
    }

    private static func header(_ text: String) -> String {
        guard let colon = text.firstIndex(where: { $0 == ":" || $0 == "=" }) else { return mark }
        return text[...colon] + " " + mark
    }
}
