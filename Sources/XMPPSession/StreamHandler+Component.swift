import NIOCore
import Vocabulary
import XMLWire
import XMPP

// What is different where we are an external component (XEP-0114).
extension StreamHandler {
    /// Gets ready to negotiate.
    func beginComponent(_ secret: Secret) {
        let isClear = if case .clear = settings.security { true } else { false }
        componentNegotiation = ComponentNegotiation(
            configuration: ComponentConfiguration(
                domain: settings.domain,
                secret: secret,
                allowsClearText: isClear
            )
        )
    }

    /// The server's stream header came.
    func openedComponent(_ header: Stanza) {
        switch componentNegotiation?.opened(header) {
        case .send(let bytes)?: write(bytes)
        case .fail(let error)?: fail(error)
        case .some(.none), nil: break
        }
    }

    /// Why nothing may be sent in the clear over this connection; nil where it may.
    ///
    /// Judged is the address that the kernel is connected to: what a name stands for may change between any two look-ups.
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

    /// Has a stanza of a component's stream look like one of a client's, for everything that reads it.
    ///
    /// Its bytes as they came stay as they are.
    func unifyNamespace(of stanza: Stanza) {
        guard isComponent else { return }
        stanza.moveElements(from: XMLNamespace.component, to: XMLNamespace.client)
    }
}
