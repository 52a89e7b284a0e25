import HTTPTypes
import Hummingbird

/// Where a browser says that a request came from.
enum RequestOrigin: Equatable {
    /// A page of ours, or the address bar.
    case ours
    /// A page of somebody else's.
    case foreign
    /// No browser that is in use today: each names the origin of a request that may change something.
    case unknown

    /// Judges by `Sec-Fetch-Site`, which no page can set, else by `Origin` (RFC 6454).
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - isSecure: Whether the client's own connection is TLS.
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

/// What a proxy adds to a request that it passes on.
enum ForwardingHeaders {
    /// `Forwarded` (RFC 7239), `Via` (RFC 9110 section 7.6.3), and the names without a standard.
    ///
    /// Not every proxy adds one of them: a request without them may still be a proxy's.
    static func areIn(_ request: Request) -> Bool {
        request.headers.contains { field in
            let name = field.name.canonicalName
            return name == "forwarded" || name == "via" || name == "x-real-ip" || name.hasPrefix("x-forwarded-")
        }
    }
}

/// The names that a request may be addressed to.
///
/// A page of a stranger's may give its own name our address (DNS rebinding), and then is of the same origin as we are; but its
/// requests name that host. An address is nobody's name.
package struct AllowedHosts: Sendable {
    private let names: Set<String>
    private let isAny: Bool

    /// The rule.
    ///
    /// - Parameters:
    ///   - names: Host names besides loopback's.
    ///   - isOnLoopback: Whether only this machine reaches the console; otherwise no names means any.
    package init(_ names: [String], isOnLoopback: Bool) {
        self.names = Set(names.map { $0.lowercased() } + ["localhost"])
        isAny = names.isEmpty && !isOnLoopback
    }

    /// Whether `Host` (RFC 9110 section 7.2), with or without a port, is one of them.
    func contains(_ authority: String) -> Bool {
        guard let host = HostAndPort(authority[...]) else { return false }
        let name = host.host.lowercased()
        guard !NetworkAddressText.isAddress(name) else { return true }
        guard !host.isBracketed else { return false }
        return isAny ? host.isName : names.contains(name)
    }
}
