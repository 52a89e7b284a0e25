import HTTPTypes
import Hummingbird
import Vocabulary

/// The origin of a request, according to the browser.
enum RequestOrigin: Equatable {
    /// Our own page, or the address bar.
    case ours
    /// Another site's page.
    case foreign
    /// No current browser: each names the origin of a request that may change something.
    case unknown

    /// Judges by `Sec-Fetch-Site`, which no page can set, else by `Origin` (RFC 6454).
    ///
    /// `isSecure`: the client's own connection is TLS.
    init(_ request: Request, isSecure: Bool) {
        let sites = request.headers[values: .secFetchSite]
        guard sites.isEmpty else {
            self = sites == ["same-origin"] || sites == ["none"] ? .ours : .foreign
            return
        }
        let origins = request.headers[values: .origin]
        guard let origin = origins.first else {
            self = .unknown
            return
        }
        let schemes = isSecure ? ["https://"] : ["http://", "https://"]
        let host = request.head.authority?.lowercased() ?? ""
        let isOurs = origins.count == 1 && !host.isEmpty && schemes.contains { origin.lowercased() == $0 + host }
        self = isOurs ? .ours : .foreign
    }
}

/// Headers that a proxy adds to a forwarded request.
enum ForwardingHeaders {
    /// Whether a request has `Forwarded` (RFC 7239), `Via` (RFC 9110 section 7.6.3), or a header without a standard.
    ///
    /// Not every proxy adds one: a request without them may still be a proxy's.
    static func areIn(_ request: Request) -> Bool {
        request.headers.contains { field in
            let name = field.name.canonicalName
            return name == "forwarded" || name == "via" || name == "x-real-ip" || name.hasPrefix("x-forwarded-")
        }
    }
}

/// The host names that requests may be addressed to.
///
/// With DNS rebinding, another site's name resolves to our address and its page shares our origin; but its requests
/// name that host. IP addresses are always allowed: nobody can own one as a name.
package struct AllowedHosts: Sendable {
    private let names: Set<String>
    private let isAny: Bool

    /// Allows `names` and loopback's; without names, any, unless only this machine reaches the console.
    package init(_ names: [String], isOnLoopback: Bool) {
        self.names = Set(names.map { $0.lowercased() } + ["localhost"])
        isAny = names.isEmpty && !isOnLoopback
    }

    /// Whether a `Host` (RFC 9110 section 7.2), with or without a port, is allowed.
    func contains(_ authority: String) -> Bool {
        guard let host = HostAndPort(authority[...]) else { return false }
        let name = host.host.lowercased()
        guard NetworkAddress(name) == nil else { return true }
        guard !host.isBracketed else { return false }
        return isAny ? host.isName : names.contains(name)
    }
}
