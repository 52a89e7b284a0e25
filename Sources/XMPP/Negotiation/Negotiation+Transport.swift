import XMLWire

// The stream header and STARTTLS.
extension Negotiation {
    /// Our stream header, to the configured domain.
    var header: [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<?xml version=\"1.0\"?><stream:stream to=\"")
        bytes.append(escaping: configuration.domain.utf8)
        // RFC 6120 section 4.7.1, and XEP-0388, whose mechanisms may depend on the account; not sent unencrypted.
        if configuration.dialect == .xmpp, isEncrypted {
            bytes.append(xml: "\" from=\"")
            bytes.append(escaping: "\(configuration.localpart)@\(configuration.domain)".utf8)
        }
        bytes.append(
            xml: "\" version=\"1.0\" xmlns=\"jabber:client\" xmlns:stream=\"http://etherx.jabber.org/streams\">"
        )
        return bytes
    }

    private var isEncrypted: Bool {
        if case .awaitingHeader(.plain) = state { false } else { true }
    }

    /// Handles the server's features, depending on the phase.
    mutating func features(_ stanza: Stanza, _ phase: Phase) -> StanzaAction {
        switch phase {
        case .plain:
            guard stanza.child("starttls", in: XMLNamespace.tls) != nil else {
                return .fail(
                    finish(
                        NegotiationError(
                            .tlsNotOffered,
                            "the server offers no STARTTLS and nothing is sent unencrypted: enable it there, or use "
                                + "`tls.mode: direct` with the server's port for direct TLS",
                            isPermanent: true
                        )
                    )
                )
            }
            state = .awaitingProceed
            return .send(Array("<starttls xmlns=\"urn:ietf:params:xml:ns:xmpp-tls\"/>".utf8))
        case .secured:
            return authenticate(stanza)
        case .authenticated:
            return bind(stanza)
        }
    }

    /// Handles an answer to our `<starttls/>`.
    mutating func proceed(_ stanza: Stanza, trailingBytes: Int) -> StanzaAction {
        if stanza.element(0, is: "failure", in: XMLNamespace.tls) {
            return .fail(finish(NegotiationError(.tlsRefused, "the server refused STARTTLS: see the server's log")))
        }
        guard stanza.element(0, is: "proceed", in: XMLNamespace.tls) else { return .none }
        guard trailingBytes == 0 else {
            return .fail(
                finish(
                    NegotiationError(
                        .tlsInjection,
                        "unencrypted bytes followed the server's <proceed/>: somebody on the network path may have put "
                            + "them there"
                    )
                )
            )
        }
        state = .startingTLS
        return .startTLS
    }
}
