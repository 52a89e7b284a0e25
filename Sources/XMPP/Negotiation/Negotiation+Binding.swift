import XMLWire

// Resource binding, and what is requested with it.
extension Negotiation {
    private var bindID: String { idPrefix + "-bind" }

    /// Requests a resource, given the features of an authenticated stream.
    mutating func bind(_ stanza: Stanza) -> Action {
        guard stanza.child("bind", in: XMLNamespace.bind) != nil else {
            return .fail(
                finish(.bindRefused, "the server offers no resource binding: check that the port is for XMPP clients")
            )
        }
        var offers = Offers()
        if let offer = stanza.child("session", in: XMLNamespace.session) {
            offers.session = stanza.child("optional", in: XMLNamespace.session, of: offer) == nil
        }
        offers.management = stanza.child("sm", in: XMLNamespace.streamManagement) != nil
        offers.limits = ServerLimits(features: stanza)
        guard var suspended else { return bindRequest(offers) }
        guard offers.management else { return unresumed(offers) }
        let request = suspended.management.resumption()
        state = .resuming(offers, suspended)
        return .send(request)
    }

    /// Goes on without the session that was to be resumed, whose messages the server may have stored.
    private mutating func unresumed(_ offers: Offers) -> Action {
        guard settings.storeIsFetched else { return bindRequest(offers) }
        let message = "the server has given the lost session up: what it has stored is fetched before the next login"
        return .fail(finish(.sessionGone, message))
    }

    private mutating func bindRequest(_ offers: Offers) -> Action {
        state = .binding(offers)
        let resource = settings.resource.map { "<resource>\($0.xmlEscaped)</resource>" } ?? ""
        let bind = "<bind xmlns=\"\(XMLNamespace.bind)\">\(resource)</bind>"
        return .send(Array("<iq type=\"set\" id=\"\(bindID.xmlEscaped)\">\(bind)</iq>".utf8))
    }

    /// Handles the answer to the request to resume a session (XEP-0198 section 5): after a refusal a new one is
    /// bound, on this stream or the next.
    mutating func resumption(_ stanza: Stanza, _ offers: Offers, _ suspended: SuspendedSession) -> Action {
        var management = suspended.management
        switch management.answered(stanza) {
        case .none: return .none
        case .refused: return unresumed(offers)
        case .invalid:
            return .fail(finish(.badStream, "the server's answer to the request to resume can't be right"))
        case .resumed:
            state = .finished
            var stream = BoundStream(address: suspended.address, greeting: [], management: .offered)
            stream.limits = offers.limits
            stream.resumed = management
            return .bound(stream)
        }
    }

    mutating func bindResult(_ stanza: Stanza, _ offers: Offers) -> Action {
        guard stanza.element(0, is: "iq", in: XMLNamespace.client), isFromServer(stanza) else { return .none }
        // Some servers leave the id out; a wrong one answers another request.
        if let id = stanza.attribute("id", of: 0), stanza.string(id) != bindID { return .none }
        guard let type = stanza.attribute("type", of: 0) else { return .none }
        if stanza.equals(type, "error") {
            let condition = StanzaError(stanza).condition.rawValue
            let message = "the server refused to bind: \(condition); see its limits on resources"
            return .fail(finish(NegotiationError(.bindRefused, message, condition: condition)))
        }
        guard stanza.equals(type, "result") else { return .none }
        guard let bind = stanza.child("bind", in: XMLNamespace.bind),
            let element = stanza.child("jid", in: XMLNamespace.bind, of: bind),
            let address = JID(stanza.string(stanza.elements[element].text))
        else {
            return .fail(finish(.bindRefused, "the server's answer to the binding holds no address"))
        }
        state = .finished
        let isManaged = settings.dialect == .xmpp && settings.purpose != .archive
        let management: StreamManagement.Offer = isManaged ? offers.management ? .offered : .missing : .unused
        let greeting = greeting(offers, management)
        return .bound(BoundStream(address: address, greeting: greeting, management: management, limits: offers.limits))
    }

    /// Whether an IQ is from the server: without `from`, or from the domain or our account (RFC 6120, 8.1.2.1).
    private func isFromServer(_ stanza: Stanza) -> Bool {
        stanza.isFrom(nobodyOr: { $0 == JID(settings.domain) || $0.bare == JID(settings.address) })
    }

    private func greeting(_ offers: Offers, _ management: StreamManagement.Offer) -> [UInt8] {
        var bytes: [UInt8] = []
        if offers.session {
            let id = "\(idPrefix)-session".xmlEscaped
            bytes += "<iq type=\"set\" id=\"\(id)\"><session xmlns=\"\(XMLNamespace.session)\"/></iq>".utf8
        }
        // It takes stanzas in order, so it counts what it sends for the presence; and since both go in one write,
        // nothing is stored in between that the presence would miss.
        if management == .offered { bytes += StreamManagement.request(resume: settings.resume) }
        if management != .unused, settings.isPresent { bytes += Presence.available(settings.priority) }
        return bytes
    }
}
