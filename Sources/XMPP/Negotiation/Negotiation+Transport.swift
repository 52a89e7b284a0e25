import XMLWire

// The stream header and STARTTLS.
extension Negotiation {
    /// Our stream header, to the configured domain.
    var header: [UInt8] {
        var attributes = "to=\"\(settings.domain.xmlEscaped)\""
        // RFC 6120 section 4.7.1, and XEP-0388, whose mechanisms may depend on the account; not sent unencrypted.
        if settings.dialect == .xmpp, isEncrypted { attributes += " from=\"\(settings.address.xmlEscaped)\"" }
        if !isComponent { attributes += " version=\"1.0\"" }
        attributes += " xmlns=\"\(isComponent ? XMLNamespace.component : XMLNamespace.client)\""
        attributes += " xmlns:stream=\"\(XMLNamespace.streams)\""
        return Array("<?xml version=\"1.0\"?><stream:stream \(attributes)>".utf8)
    }

    private var isEncrypted: Bool {
        if case .awaitingHeader(.plain) = state { false } else { true }
    }

    /// Handles the server's features, depending on the phase.
    mutating func features(_ stanza: Stanza, _ phase: Phase) -> StanzaAction {
        switch phase {
        case .plain:
            guard stanza.child("starttls", in: XMLNamespace.tls) != nil else {
                let message =
                    "the server offers no STARTTLS and nothing is sent unencrypted: enable it there, or use "
                    + "`tls.mode: direct` with the server's port for direct TLS"
                return .fail(finish(.tlsNotOffered, message, isPermanent: true))
            }
            state = .awaitingProceed
            return .send(Array("<starttls xmlns=\"urn:ietf:params:xml:ns:xmpp-tls\"/>".utf8))
        case .secured: return authenticate(stanza)
        case .authenticated: return bind(stanza)
        }
    }

    mutating func proceed(_ stanza: Stanza, trailingBytes: Int) -> StanzaAction {
        if stanza.element(0, is: "failure", in: XMLNamespace.tls) {
            return .fail(finish(.tlsRefused, "the server refused STARTTLS: see the server's log"))
        }
        guard stanza.element(0, is: "proceed", in: XMLNamespace.tls) else { return .none }
        guard trailingBytes == 0 else {
            let message =
                "unencrypted bytes followed the server's <proceed/>: somebody on the network path may have put them there"
            return .fail(finish(.tlsInjection, message))
        }
        state = .startingTLS
        return .startTLS
    }
}
