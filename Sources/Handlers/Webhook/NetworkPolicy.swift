import DNS
import HTTPWire
import Vocabulary

/// The addresses that a webhook may be sent to: public ones over TLS, and what the operator allows.
struct NetworkPolicy: Sendable, Equatable {
    var allowed: [Network] = []

    enum Decision: Hashable {
        case allow
        /// The address is private, loopback, link-local or otherwise not a public host's.
        case refuse
        /// Plain http goes to allowed networks only.
        case refusePlain
    }

    func decide(_ address: NetworkAddress, isPlain: Bool) -> Decision {
        if allowed.contains(where: { $0.contains(address) }) { return .allow }
        // `10.0.0.0/8` also covers `::ffff:10.1.2.3`, which is the same host.
        if let inner = address.embeddedIPv4, allowed.contains(where: { $0.contains(inner) }) { return .allow }
        if Self.isSpecial(address) || address.embeddedIPv4.map(Self.isSpecial) == true { return .refuse }
        return isPlain ? .refusePlain : .allow
    }

    private static func isSpecial(_ address: NetworkAddress) -> Bool {
        special.contains { $0.contains(address) }
    }

    /// Addresses that IANA's special-purpose registries list as not globally reachable, and multicast.
    ///
    /// They include cloud metadata endpoints: 169.254.169.254, fd00:ec2::254, 100.100.100.200; those in public space
    /// are listed separately.
    private static let special: [Network] = [
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
        "::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
        "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    ].compactMap(Network.init)
}

struct WebhookRefusal: Error {
    var group: String
    var cause: String
    var fix: String
    var status = ExitStatus.configuration
}

extension NetworkPolicy {
    /// The addresses of an endpoint, before each request and in `check --connect`; sends nothing.
    ///
    /// One forbidden address forbids all: a name that resolves to public and private addresses is not trusted.
    func addresses(
        of endpoint: HTTPEndpoint,
        by resolver: AddressResolver = .system
    ) async throws(WebhookRefusal) -> [NetworkAddress] {
        let host = endpoint.host
        let addresses: [NetworkAddress]
        do {
            addresses = if let own = endpoint.address { [own] } else { try await resolver.resolve(host) }
        } catch {
            let reason = (error as? ResolveError)?.reason ?? "the look-up was given up"
            throw WebhookRefusal(
                group: "webhook name not resolved",
                cause: "\(host) does not resolve: \(reason)",
                fix: "correct webhook.url, or the name server of this machine (/etc/resolv.conf)",
                status: .unavailable
            )
        }
        for address in addresses {
            switch decide(address, isPlain: endpoint.isPlain) {
            case .allow: continue
            case .refuse:
                throw WebhookRefusal(
                    group: "webhook address refused",
                    cause: "\(host) is at \(address), which is not a public address",
                    fix: "if that is intended, add its network to webhook.allow_networks"
                )
            case .refusePlain:
                throw WebhookRefusal(
                    group: "webhook plain http refused",
                    cause: "\(host) is at \(address), outside webhook.allow_networks, where only https is allowed",
                    fix: "use https, or add its network to webhook.allow_networks"
                )
            }
        }
        return addresses
    }
}
