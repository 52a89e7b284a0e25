import XMLWire

// Resource binding, and what is requested with it.
extension Negotiation {
    private var bindID: String { configuration.idPrefix + "-bind" }

    /// Requests a resource.
    ///
    /// - Parameter stanza: The features of an authenticated stream.
    /// - Returns: The request, or the failure.
    mutating func bind(_ stanza: Stanza) -> StanzaAction {
        guard stanza.child("bind", in: XMLNamespace.bind) != nil else {
            return .fail(
                finish(
                    NegotiationError(
                        .bindRefused,
                        "the server offers no resource binding: check that the port is for XMPP clients"
                    )
                )
            )
        }
        var offers = Offers()
        if let offer = stanza.child("session", in: XMLNamespace.session) {
            offers.session = stanza.child("optional", in: XMLNamespace.session, of: offer) == nil
        }
        offers.management = stanza.child("sm", in: XMLNamespace.streamManagement) != nil
        offers.limits = ServerLimits(features: stanza)
        if offers.management, var suspended = configuration.suspended {
            let request = suspended.management.resumption()
            state = .resuming(offers, suspended)
            return .send(request)
        }
        return bindRequest(offers)
    }

    private mutating func bindRequest(_ offers: Offers) -> StanzaAction {
        var bytes: [UInt8] = []
        bytes.append(xml: "<iq type=\"set\" id=\"")
        bytes.append(escaping: bindID.utf8)
        bytes.append(xml: "\"><bind xmlns=\"urn:ietf:params:xml:ns:xmpp-bind\">")
        if let resource = configuration.resource {
            bytes.append(xml: "<resource>")
            bytes.append(escaping: resource.utf8)
            bytes.append(xml: "</resource>")
        }
        bytes.append(xml: "</bind></iq>")
        state = .binding(offers)
        return .send(bytes)
    }

    /// Handles the answer to the request to resume a session (XEP-0198 section 5).
    ///
    /// What follows a `<resumed/>` belongs to the session; a refusal leaves the stream as it was, and a new session is
    /// bound.
    mutating func resumption(_ stanza: Stanza, _ offers: Offers, _ suspended: SuspendedSession) -> StanzaAction {
        var management = suspended.management
        switch management.answered(stanza) {
        case .none: return .none
        case .refused: return bindRequest(offers)
        case .invalid:
            return .fail(
                finish(NegotiationError(.badStream, "the server's answer to the request to resume can't be right"))
            )
        case .resumed:
            state = .finished
            return .bound(
                BoundStream(
                    address: suspended.address,
                    greeting: [],
                    management: .offered,
                    limits: offers.limits,
                    resumed: management
                )
            )
        }
    }

    /// Handles the answer to the bind request.
    mutating func bindResult(_ stanza: Stanza, _ offers: Offers) -> StanzaAction {
        guard stanza.element(0, is: "iq", in: XMLNamespace.client), isFromServer(stanza) else { return .none }
        // Some servers leave the id out; a wrong one answers another request.
        if let id = stanza.attribute("id", of: 0), stanza.string(id) != bindID { return .none }
        guard let type = stanza.attribute("type", of: 0) else { return .none }
        if stanza.equals(type, "error") {
            let error = StanzaError(stanza)
            return .fail(
                finish(
                    NegotiationError(
                        .bindRefused,
                        "the server refused to bind: \(error.condition.rawValue); see its limits on resources",
                        condition: error.condition.rawValue
                    )
                )
            )
        }
        guard stanza.equals(type, "result") else { return .none }
        guard let bind = stanza.child("bind", in: XMLNamespace.bind),
            let element = stanza.child("jid", in: XMLNamespace.bind, of: bind),
            let address = JID(stanza.string(stanza.elements[element].text))
        else {
            return .fail(finish(NegotiationError(.bindRefused, "the server's answer to the binding holds no address")))
        }
        state = .finished
        let management = managementOffer(offers)
        return .bound(
            BoundStream(
                address: address,
                greeting: greeting(offers, management),
                management: management,
                limits: offers.limits
            )
        )
    }

    private func managementOffer(_ offers: Offers) -> StreamManagement.Offer {
        switch configuration.dialect {
        case .ccs, .component: .unused
        case .xmpp: offers.management ? .offered : .missing
        }
    }

    /// Whether an IQ is from the server: without `from`, or from the domain or our own account (RFC 6120 section
    /// 8.1.2.1).
    private func isFromServer(_ stanza: Stanza) -> Bool {
        guard let from = stanza.attribute("from", of: 0) else { return true }
        guard let sender = JID(stanza.string(from)), let domain = JID(configuration.domain) else { return false }
        return sender == domain || sender.bare == JID("\(configuration.localpart)@\(configuration.domain)")
    }

    private func greeting(_ offers: Offers, _ management: StreamManagement.Offer) -> [UInt8] {
        var bytes: [UInt8] = []
        if offers.session {
            bytes.append(xml: "<iq type=\"set\" id=\"")
            bytes.append(escaping: (configuration.idPrefix + "-session").utf8)
            bytes.append(xml: "\"><session xmlns=\"urn:ietf:params:xml:ns:xmpp-session\"/></iq>")
        }
        // Presence makes the server send stored messages. It takes stanzas in order, so it already counts what it
        // sends for the presence; and since both go in one write, nothing is stored in between that the presence would
        // miss.
        if management == .offered { bytes += StreamManagement.request(resume: configuration.resume) }
        if management != .unused { bytes += Presence.available(configuration.priority) }
        return bytes
    }
}
