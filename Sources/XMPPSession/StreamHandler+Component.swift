import NIOCore
import Vocabulary
import XMLWire
import XMPP

// The differences for an external component (XEP-0114).
extension StreamHandler {
    /// The negotiation of a component's stream.
    func componentNegotiation(_ secret: Secret) -> ComponentNegotiation {
        let isClear = if case .clear = settings.security { true } else { false }
        return ComponentNegotiation(
            configuration: ComponentConfiguration(
                domain: settings.domain,
                secret: secret,
                allowsClearText: isClear
            )
        )
    }

    /// Why nothing may be sent unencrypted over this connection; nil if it may.
    ///
    /// It judges the address that the kernel is connected to, since a name's addresses may change between look-ups.
    func refusal(ofClearTextOutside networks: ClearNetworks) -> NegotiationError? {
        let address = context?.channel.remoteAddress?.ipAddress.flatMap { NetworkAddress($0) }
        if let address, networks.contains(address) { return nil }
        let place = address.map { "\($0)" } ?? "an unknown address"
        return NegotiationError(
            .notEncrypted,
            "\(settings.host) is \(place), which is neither this machine nor in tls.allow_clear_networks: nothing is sent there "
                + "in the clear; use tls.mode: direct, or list the network if nobody else can read or write in it",
            isPermanent: true
        )
    }

    /// Moves a component stream's stanza to the client namespace for all readers; its raw bytes stay unchanged.
    func unifyNamespace(of stanza: Stanza) {
        guard isComponent else { return }
        stanza.moveElements(from: XMLNamespace.component, to: XMLNamespace.client)
    }
}
