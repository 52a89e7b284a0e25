import Foundation

/// A connection string or URL, split to find credentials: where they are read, and where people write them by mistake.
package struct CredentialText {
    /// The scheme with its `://`; empty if there is none, as in `key=value`.
    let scheme: Substring
    /// Everything after it.
    let rest: Substring
    /// The part read as user and password; nil without an `@`.
    ///
    /// libpq takes everything up to the first `@` that no `/` precedes, question marks included
    /// (`conninfo_uri_parse_options` in PostgreSQL's fe-connect.c).
    let user: Substring?
    /// Everything from the user, if any, to the query: hosts, ports and a path.
    let place: Substring
    /// The settings of the query.
    let settings: [Substring]
    /// Everything before the query; without a user, as far as a path reaches, including question marks before it.
    let head: Substring

    package init(_ text: String) {
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

    /// The first colon before an `@` before the query: what lies between may be a password with unescaped characters; or
    /// before a port that is none, as where the host was forgotten.
    var passwordColon: Substring.Index? {
        guard let colon = head.firstIndex(of: ":") else { return nil }
        return head[colon...].contains("@") || namesOddPort ? colon : nil
    }

    /// Whether a URL's port is no number.
    package var namesOddPort: Bool {
        !scheme.isEmpty
            && place.prefix { $0 != "/" }.split(separator: ",").contains { host in
                let name = host.hasPrefix("[") ? host.drop { $0 != "]" } : host
                return name.firstIndex(of: ":").map { !name[$0...].dropFirst().allSatisfy(\.isNumber) } ?? false
            }
    }

    /// Whether it holds a password in any form that libpq accepts, or something like one.
    package var holdsPassword: Bool {
        guard !scheme.isEmpty else {
            return Self.passwordSetting(in: rest) != nil || (!rest.contains("=") && passwordColon != nil)
        }
        return passwordColon != nil
            || settings.contains { Self.isPassword($0.prefix { $0 != "=" }) }
    }

    /// Whether a setting of this name is a secret; true for an unreadable name.
    static func isPassword(_ name: Substring) -> Bool {
        guard let name = name.removingPercentEncoding?.lowercased() else { return true }
        return secrets.contains { name.contains($0) }
    }

    /// The `=` of the first secret setting in libpq's `key=value` form.
    ///
    /// Spaces may surround it, and need not separate a quoted value from the next name. Quotes are ignored, so that
    /// quoting can't hide a secret.
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

    /// Parts of the names of libpq's secret settings, up to PostgreSQL 18; settings that name files are no secrets.
    private static let secrets = ["password", "client_secret", "scram_client_key", "scram_server_key"]
}
