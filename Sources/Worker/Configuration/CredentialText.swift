import Foundation

/// A connection string or a URL, taken apart to find credentials: where they are read, and where people write them by mistake.
struct CredentialText {
    /// The scheme with its `://`; empty where there is none, as in `key=value`.
    let scheme: Substring
    /// Everything after it.
    let rest: Substring
    /// What is read as the user and the password; nil without an `@`.
    ///
    /// libpq takes all up to the first `@` that no `/` precedes, question marks included (`conninfo_uri_parse_options` in
    /// PostgreSQL's fe-connect.c).
    let user: Substring?
    /// From the user, if any, to the query: hosts, ports and a path.
    let place: Substring
    /// The settings of the query.
    let settings: [Substring]
    /// Everything before the query; as far as a path reaches, question marks before it included, where there is no user.
    let head: Substring

    /// Takes a text apart; any text will do.
    init(_ text: String) {
        let name = text.prefix { $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) }
        let isURL = !name.isEmpty && text[name.endIndex...].hasPrefix("://")
        let start = isURL ? text.index(name.endIndex, offsetBy: 3) : text.startIndex
        scheme = text[..<start]
        rest = text[start...]
        let authority = text[start...].prefix { $0 != "/" }
        let at = authority.firstIndex(of: "@")
        user = at.map { text[start..<$0] }
        place = text[(at.map { text.index(after: $0) } ?? start)...].prefix { $0 != "?" }
        let path = text[authority.endIndex...].prefix { $0 != "?" }
        head = text[start..<(at == nil ? path.endIndex : place.endIndex)]
        settings = text[place.endIndex...].dropFirst().split(separator: "&", omittingEmptySubsequences: false)
    }

    /// Where the first colon stands that an `@` follows before the query: what lies between may be a password, with
    /// characters in it that should have been escaped.
    var passwordColon: Substring.Index? {
        guard let colon = head.firstIndex(of: ":"), head[colon...].contains("@") else { return nil }
        return colon
    }

    /// Whether it carries a password in any of the forms that libpq takes, or something that looks like one.
    var holdsPassword: Bool {
        guard !scheme.isEmpty else {
            return Self.passwordSetting(in: rest) != nil || (!rest.contains("=") && passwordColon != nil)
        }
        return passwordColon != nil
            || settings.contains { Self.isPassword($0.prefix { $0 != "=" }) }
    }

    /// Whether a setting of this name is a secret; of a name that can't be read nobody knows.
    static func isPassword(_ name: Substring) -> Bool {
        guard let name = name.removingPercentEncoding?.lowercased() else { return true }
        return secrets.contains { name.contains($0) }
    }

    /// Where the `=` of the first setting stands that is a secret, in libpq's `key=value` form.
    ///
    /// Spaces may surround it, and none need be between a quoted value and the next name. Quotes are not looked at: then no
    /// quoting can hide one.
    static func passwordSetting(in text: Substring) -> Substring.Index? {
        var found: Substring.Index?
        for secret in secrets {
            var start = text.startIndex
            while let name = text.range(of: secret, options: .caseInsensitive, range: start..<text.endIndex) {
                start = name.upperBound
                let equals = text[start...].drop { $0.isWhitespace }
                guard equals.first == "=" else { continue }
                found = min(found ?? equals.startIndex, equals.startIndex)
                break
            }
        }
        return found
    }

    /// What the names of libpq's settings that are secrets have in them, up to PostgreSQL 18; those that name files are none.
    private static let secrets = ["password", "client_secret", "scram_client_key", "scram_server_key"]
}
