import Testing
import XMLWire

@testable import XMPP

/// Negotiations as conversations, and every state with every event.
@Suite struct NegotiationTests {
    private static let secret = "AIza-secret"

    /// What a negotiation is made of.
    struct Setting {
        var settings: StreamSettings
        var mode: TLSMode
        var suspended: SuspendedSession?

        init(_ mode: TLSMode = .direct, _ dialect: Dialect = .ccs, resource: String? = nil) {
            settings = StreamSettings(senderID: "1234567890", domain: "fcm.googleapis.com", dialect: dialect)
            settings.username = settings.address
            settings.allowsPlain = true
            settings.resource = resource
            self.mode = mode
        }

        var negotiation: Negotiation {
            Negotiation(
                settings,
                secret: Secret(Array(NegotiationTests.secret.utf8)),
                mode: mode,
                suspended: suspended,
                idPrefix: "r4nd",
                nonce: Array(0..<24)
            )
        }
    }

    // What servers say.
    static let opening =
        "<stream:stream from='gcm.googleapis.com' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>"
    static let mechanisms =
        "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>X-OAUTH2</mechanism><mechanism>PLAIN</mechanism></mechanisms></stream:features>"
    static let startTLS =
        "<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'><required/></starttls><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><mechanism>PLAIN</mechanism></mechanisms></stream:features>"
    static let proceed = "<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>"
    static let success = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>"
    static let bindOffer =
        "<str:features xmlns:str='http://etherx.jabber.org/streams'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><session xmlns='urn:ietf:params:xml:ns:xmpp-session'/></str:features>"
    static let bound =
        "<iq type='result' id='r4nd-bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>1234567890@gcm.googleapis.com/R</jid></bind></iq>"

    /// The states, each reached by the shortest conversation.
    enum Point: CaseIterable {
        case idle
        case headerPlain, featuresPlain, awaitingProceed, startingTLS
        case headerSecured, featuresSecured, authenticating
        case headerAuthenticated, featuresAuthenticated, binding, finished
    }

    static func reach(_ point: Point, _ given: Setting? = nil) throws -> Negotiation {
        let plain: [Point] = [.headerPlain, .featuresPlain, .awaitingProceed, .startingTLS]
        let setting = given ?? Setting(plain.contains(point) ? .starttls : .direct)
        var negotiation = setting.negotiation
        let starttls = setting.mode == .starttls
        if point == .idle { return negotiation }
        _ = negotiation.transportReady(encrypted: !starttls)
        if starttls {
            if point == .headerPlain { return negotiation }
            _ = negotiation.opened(try header(opening))
            if point == .featuresPlain { return negotiation }
            _ = negotiation.stanza(try stanza(startTLS), trailingBytes: 0)
            if point == .awaitingProceed { return negotiation }
            _ = negotiation.stanza(try stanza(proceed), trailingBytes: 0)
            if point == .startingTLS { return negotiation }
            _ = negotiation.transportReady(encrypted: true)
        }
        if point == .headerSecured { return negotiation }
        _ = negotiation.opened(try header(opening))
        if point == .featuresSecured { return negotiation }
        _ = negotiation.stanza(try stanza(mechanisms), trailingBytes: 0)
        if point == .authenticating { return negotiation }
        _ = negotiation.stanza(try stanza(success), trailingBytes: 0)
        if point == .headerAuthenticated { return negotiation }
        _ = negotiation.opened(try header(opening))
        if point == .featuresAuthenticated { return negotiation }
        _ = negotiation.stanza(try stanza(bindOffer), trailingBytes: 0)
        if point == .binding { return negotiation }
        _ = negotiation.stanza(try stanza(bound), trailingBytes: 0)
        return negotiation
    }

    static func word(_ action: Negotiation.Action) -> String {
        switch action {
        case .none: "-"
        case .send: "send"
        case .startTLS: "startTLS"
        case .derive: "derive"
        case .restart: "restart"
        case .bound: "bound"
        case .fail(let error): "fail \(error.code.rawValue)"
        }
    }

    private static func text(_ action: Negotiation.Action) -> String? {
        switch action {
        case .send(let bytes), .restart(let bytes): String(decoding: bytes, as: UTF8.self)
        case .bound(let stream): String(decoding: stream.greeting, as: UTF8.self)
        default: nil
        }
    }

    @Test("a conversation over direct TLS: PLAIN, bind, and what is said in which order")
    func direct() throws {
        var negotiation = Setting().negotiation
        guard case .send(let first) = negotiation.transportReady(encrypted: true) else { throw Unexpected("no header") }
        let sent = try header(String(decoding: first, as: UTF8.self))
        #expect(sent.attribute("to", of: 0).map { sent.string($0) } == "fcm.googleapis.com")
        _ = negotiation.opened(try header(NegotiationTests.opening))
        let auth = NegotiationTests.text(negotiation.stanza(try stanza(NegotiationTests.mechanisms), trailingBytes: 0))
        // echo -ne '\0001234567890@fcm.googleapis.com\0AIza-secret' | base64
        #expect(
            auth
                == "<auth xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\" mechanism=\"PLAIN\">ADEyMzQ1Njc4OTBAZmNtLmdvb2dsZWFwaXMuY29tAEFJemEtc2VjcmV0</auth>"
        )
        let restart = negotiation.stanza(try stanza(NegotiationTests.success), trailingBytes: 0)
        #expect(
            NegotiationTests.word(restart) == "restart"
                && NegotiationTests.text(restart)?.contains("<stream:stream") == true
        )
        _ = negotiation.opened(try header(NegotiationTests.opening))
        let bind = NegotiationTests.text(negotiation.stanza(try stanza(NegotiationTests.bindOffer), trailingBytes: 0))
        #expect(
            bind == "<iq type=\"set\" id=\"r4nd-bind\"><bind xmlns=\"urn:ietf:params:xml:ns:xmpp-bind\"></bind></iq>"
        )
        let done = negotiation.stanza(try stanza(NegotiationTests.bound), trailingBytes: 0)
        guard case .bound(let stream) = done else { throw Unexpected("not bound") }
        #expect(stream.address == JID("1234567890@gcm.googleapis.com/R"))
        // The session was offered without `optional`, so it is asked for; no presence in this dialect.
        #expect(NegotiationTests.text(done)?.hasPrefix("<iq type=\"set\" id=\"r4nd-session\"><session") == true)
        #expect(NegotiationTests.text(done)?.contains("presence") == false)
    }

    @Test("a standard server gets presence, and the resource that is configured")
    func aStandardServerGetsPresenceAndAResource() throws {
        let offer =
            "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><session xmlns='urn:ietf:params:xml:ns:xmpp-session'><optional/></session></stream:features>"
        var negotiation = try NegotiationTests.reach(
            .featuresAuthenticated,
            Setting(.starttls, .xmpp, resource: "a<b")
        )
        let bind = NegotiationTests.text(negotiation.stanza(try stanza(offer), trailingBytes: 0))
        #expect(bind?.contains("<resource>a&lt;b</resource>") == true)
        let done = negotiation.stanza(try stanza(NegotiationTests.bound), trailingBytes: 0)
        #expect(NegotiationTests.text(done) == "<presence/>")
    }

    @Test("stream management is asked for right before presence, and only of a standard server that offers it")
    func streamManagement() throws {
        let sm = "<sm xmlns='urn:xmpp:sm:2'/><sm xmlns='urn:xmpp:sm:3'><optional/></sm>"
        let session = "<session xmlns='urn:ietf:params:xml:ns:xmpp-session'/>"
        let enable = "<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>"
        let request =
            "<iq type=\"set\" id=\"r4nd-session\"><session xmlns=\"urn:ietf:params:xml:ns:xmpp-session\"/></iq>"
        let rows: [(Dialect, String, StreamManagement.Offer, String)] = [
            (.xmpp, sm, .offered, enable + "<presence/>"),
            (.xmpp, sm + session, .offered, request + enable + "<presence/>"),
            (.xmpp, "<sm xmlns='urn:xmpp:sm:2'/>", .missing, "<presence/>"),
            (.xmpp, session, .missing, request + "<presence/>"), (.ccs, sm, .unused, ""),
            (.ccs, sm + session, .unused, request),
        ]
        for (dialect, features, offer, greeting) in rows {
            var negotiation = try NegotiationTests.reach(
                .featuresAuthenticated,
                Setting(.direct, dialect)
            )
            let xml =
                "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>\(features)</stream:features>"
            _ = negotiation.stanza(try stanza(xml), trailingBytes: 0)
            guard
                case .bound(let stream) = negotiation.stanza(try stanza(NegotiationTests.bound), trailingBytes: 0)
            else { throw Unexpected("not bound") }
            #expect(stream.management == offer, "\(dialect) \(features)")
            #expect(String(decoding: stream.greeting, as: UTF8.self) == greeting, "\(dialect) \(features)")
        }
    }

    @Test(
        "a stream that reads what is stored is without presence; it is counted if others know its address",
        arguments: [
            (.store, true, .offered, "<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>"),
            (.store, false, .missing, ""), (.archive, true, .unused, ""), (.archive, false, .unused, ""),
        ] as [(StreamPurpose, Bool, StreamManagement.Offer, String)]
    )
    func withoutPresence(
        _ purpose: StreamPurpose,
        _ isOffered: Bool,
        _ offer: StreamManagement.Offer,
        _ greeting: String
    ) throws {
        var setting = Setting(.direct, .xmpp)
        setting.settings.purpose = purpose
        var negotiation = try NegotiationTests.reach(.featuresAuthenticated, setting)
        let management = isOffered ? "<sm xmlns='urn:xmpp:sm:3'/>" : ""
        let xml = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/>\(management)</stream:features>"
        _ = negotiation.stanza(try stanza(xml), trailingBytes: 0)
        guard case .bound(let stream) = negotiation.stanza(try stanza(NegotiationTests.bound), trailingBytes: 0) else {
            throw Unexpected("not bound")
        }
        #expect(stream.management == offer && String(decoding: stream.greeting, as: UTF8.self) == greeting)
    }

    @Test("STARTTLS that is not offered, or refused, ends it: nothing is sent in the clear")
    func startTLSIsNeverStripped() throws {
        // The server offers PLAIN in the clear: it is not taken, whatever else is offered.
        var offered = try NegotiationTests.reach(.featuresPlain)
        guard case .send(let bytes) = offered.stanza(try stanza(NegotiationTests.startTLS), trailingBytes: 0) else {
            throw Unexpected("no starttls")
        }
        #expect(String(decoding: bytes, as: UTF8.self) == "<starttls xmlns=\"urn:ietf:params:xml:ns:xmpp-tls\"/>")
        var stripped = try NegotiationTests.reach(.featuresPlain)
        guard case .fail(let error) = stripped.stanza(try stanza(NegotiationTests.mechanisms), trailingBytes: 0) else {
            throw Unexpected("went on in the clear")
        }
        #expect(error.code == .tlsNotOffered && !error.code.isAuthentication)
        // A success that was not asked for changes nothing.
        var early = try NegotiationTests.reach(.awaitingProceed)
        #expect(NegotiationTests.word(early.stanza(try stanza(NegotiationTests.success), trailingBytes: 0)) == "-")
    }

    @Test("bytes in the clear behind the consent to TLS end it")
    func bytesBehindTheConsentAreRefused() throws {
        for count in [1, 7, 100_000] {
            var negotiation = try NegotiationTests.reach(.awaitingProceed)
            let action = negotiation.stanza(try stanza(NegotiationTests.proceed), trailingBytes: count)
            #expect(NegotiationTests.word(action) == "fail tls_injection")
        }
    }

    @Test("without TLS nothing is sent")
    func aDirectConnectionWithoutTLSSendsNothing() {
        var negotiation = Setting(.direct).negotiation
        guard case .fail(let error) = negotiation.transportReady(encrypted: false) else {
            Issue.record("sent in the clear")
            return
        }
        #expect(error.code == .notEncrypted)
    }

    @Test(
        "a stream header of another kind ends it",
        arguments: [
            "<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
            "<stream:stream version='0.9' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
            "<stream:stream version='10' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
        ]
    )
    func otherStreamsAreRefused(_ xml: String) throws {
        var negotiation = try NegotiationTests.reach(.headerSecured)
        guard case .fail(let error) = negotiation.opened(try header(xml)) else { throw Unexpected("accepted") }
        #expect(error.code == .badStream)
    }

    @Test("errors name the fix and never the secret")
    func errorsNameTheFixAndNeverTheSecret() throws {
        let failures = [
            ("not-authorized", true, "secret_file"), ("malformed-request", true, "username"),
            ("temporary-auth-failure", false, ""), ("undefined-condition", true, ""),
        ]
        for (condition, permanent, fix) in failures {
            var negotiation = try NegotiationTests.reach(.authenticating)
            let xml =
                "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><\(condition)/><text>no&#10;\(String(repeating: "x", count: 5_000))</text></failure>"
            guard case .fail(let error) = negotiation.stanza(try stanza(xml), trailingBytes: 0) else {
                throw Unexpected("went on")
            }
            #expect(error.condition == condition && error.code.isAuthentication)
            #expect(error.code == (permanent ? .authenticationRefused : .authenticationUnavailable))
            #expect(error.message.contains(fix) && error.message.count < 600 && !error.message.contains("\n"))
            #expect(!"\(error)".contains(NegotiationTests.secret))
        }
        let credentials = SASLCredentials(username: "1", secret: Secret(Array(NegotiationTests.secret.utf8)))
        var dumped = ""
        dump(credentials, to: &dumped)
        for text in ["\(credentials)", String(reflecting: credentials), dumped] {
            #expect(!text.contains(NegotiationTests.secret))
            // Nor as numbers.
            #expect(!text.contains("65, 73, 122"))
        }
    }
}
