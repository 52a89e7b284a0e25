import Foundation

/// An address within the console, built from constants and encoded parts, so that no text from outside can make it lead
/// elsewhere (`javascript:`, `//host`).
package struct PageAddress: Sendable, Hashable {
    /// The path and the query, percent-encoded.
    package private(set) var text: String
    private var hasQuery = false

    /// An address in the source code.
    package init(_ path: StaticString) {
        text = path.description
        assert(text.hasPrefix("/") && !text.hasPrefix("//") || text.hasPrefix("#"), "an address begins with one slash")
    }

    package func adding(_ segment: String) -> PageAddress {
        var address = self
        address.text += (text.hasSuffix("/") ? "" : "/") + Self.encode(segment)
        return address
    }

    /// Adds a parameter, unless its value is nil or empty.
    package func query(_ name: StaticString, _ value: String?) -> PageAddress {
        guard let value, !value.isEmpty else { return self }
        var address = self
        address.text += (hasQuery ? "&" : "?") + name.description + "=" + Self.encode(value)
        address.hasQuery = true
        return address
    }

    /// The page with this dialog open, where scripts run.
    func opening(_ dialog: StaticString) -> PageAddress {
        var address = self
        address.text += "#" + dialog.description
        return address
    }

    package func query(_ name: StaticString, _ values: [String]) -> PageAddress {
        values.reduce(self) { $0.query(name, $1) }
    }

    /// Encodes all but unreserved characters as `%XX` (RFC 3986, 2.1 and 2.3).
    static func encode(_ text: String) -> String {
        text.addingPercentEncoding(withAllowedCharacters: unreserved) ?? ""
    }

    private static let unreserved = CharacterSet(
        charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    )
}
