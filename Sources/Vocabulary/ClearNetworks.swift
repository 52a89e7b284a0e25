/// The networks in which a component's stream may be unencrypted: this machine, and those that the operator lists.
package struct ClearNetworks: Sendable {
    private let networks: [Network]

    package init(_ networks: [Network] = []) { self.networks = networks }

    package func contains(_ address: NetworkAddress) -> Bool {
        if address.isLoopback || networks.contains(where: { $0.contains(address) }) { return true }
        // `10.0.0.0/8` also covers `::ffff:10.1.2.3`, which is the same host.
        guard let inner = address.mappedIPv4 else { return false }
        return networks.contains { $0.contains(inner) }
    }
}
