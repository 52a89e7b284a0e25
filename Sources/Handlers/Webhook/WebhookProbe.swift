import Vocabulary

/// Checks that a webhook's host resolves to addresses that its policy allows: before each request, and in `check
/// --connect`.
enum WebhookProbe {
    enum Finding: Sendable, Equatable {
        /// Requests would go to one of these.
        case allowed([NetworkAddress])
        /// The name has no address, and why.
        case unresolved(host: String, reason: String)
        /// One of its addresses is private, loopback or otherwise not public, and in no allowed network.
        case refused(host: String, NetworkAddress)
        /// Plain http would leave the allowed networks.
        case refusedPlain(host: String, NetworkAddress)
    }

    /// Looks up the host, and sends nothing; one refused address refuses all.
    static func run(
        _ endpoint: WebhookEndpoint,
        policy: NetworkPolicy,
        resolver: AddressResolver = .system
    ) async -> Finding {
        let addresses: [NetworkAddress]
        if let address = endpoint.address {
            addresses = [address]
        } else {
            do {
                addresses = try await resolver.resolve(endpoint.host)
            } catch {
                let reason = (error as? ResolveError)?.reason ?? "the look-up was given up"
                return .unresolved(host: endpoint.host, reason: reason)
            }
        }
        // One forbidden address forbids all: a name that resolves to public and private addresses is not trusted.
        for address in addresses {
            switch policy.decide(address, isPlain: endpoint.isPlain) {
            case .allow: continue
            case .refuse: return .refused(host: endpoint.host, address)
            case .refusePlain: return .refusedPlain(host: endpoint.host, address)
            }
        }
        return .allowed(addresses)
    }
}
