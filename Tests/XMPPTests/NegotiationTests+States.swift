import Testing

@testable import XMPP

// Every state with every event.
extension NegotiationTests {
    /// What a server may send, and what becomes of it where it isn't ignored.
    private static let stanzas: [(name: String, xml: String, expected: [Point: String])] = [
        (
            "mechanisms", NegotiationTests.mechanisms,
            [
                .featuresPlain: "fail tls_not_offered", .featuresSecured: "send",
                .featuresAuthenticated: "fail bind_refused",
            ]
        ),
        (
            "starttls", NegotiationTests.startTLS,
            [.featuresPlain: "send", .featuresSecured: "send", .featuresAuthenticated: "fail bind_refused"]
        ),
        (
            "bind offer", NegotiationTests.bindOffer,
            [
                .featuresPlain: "fail tls_not_offered", .featuresSecured: "fail no_mechanism",
                .featuresAuthenticated: "send",
            ]
        ),
        ("proceed", NegotiationTests.proceed, [.awaitingProceed: "startTLS"]),
        (
            "tls failure", "<failure xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>",
            [.awaitingProceed: "fail tls_refused"]
        ),
        ("success", NegotiationTests.success, [.authenticating: "restart"]),
        (
            "challenge", "<challenge xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>",
            [.authenticating: "fail authentication_protocol"]
        ),
        (
            "not base64", "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>*</success>",
            [.authenticating: "fail authentication_protocol"]
        ),
        (
            "sasl failure", "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><not-authorized/></failure>",
            [.authenticating: "fail authentication_refused"]
        ),
        (
            "for later", "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>",
            [.authenticating: "fail authentication_unavailable"]
        ),
        ("bound", NegotiationTests.bound, [.binding: "bound"]),
        (
            "bound, no id",
            "<iq type='result'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@b/c</jid></bind></iq>",
            [.binding: "bound"]
        ),
        (
            "bound, from domain",
            "<iq type='result' from='fcm.googleapis.com' id='r4nd-bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@b/c</jid></bind></iq>",
            [.binding: "bound"]
        ),
        (
            "spoofed",
            "<iq type='result' from='mallory@fcm.googleapis.com/x' id='r4nd-bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@b/c</jid></bind></iq>",
            [:]
        ),
        (
            "wrong id",
            "<iq type='result' id='other'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><jid>a@b/c</jid></bind></iq>",
            [:]
        ),
        ("no address", "<iq type='result' id='r4nd-bind'/>", [.binding: "fail bind_refused"]),
        (
            "bind error",
            "<iq type='error' id='r4nd-bind'><error type='wait'><resource-constraint xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>",
            [.binding: "fail bind_refused"]
        ),
        ("message", "<message><gcm xmlns='google:mobile:data'>{}</gcm></message>", [:]),
        ("presence", "<presence/>", [:]),
        ("iq get", "<iq type='get' id='r4nd-bind'><ping xmlns='urn:xmpp:ping'/></iq>", [:]),
        ("unknown", "<x xmlns='y'/>", [:]),
    ]

    @Test("every state with every stanza: what doesn't belong there is ignored or ends the negotiation")
    func everyStateWithEveryStanza() throws {
        for (name, xml, expected) in Self.stanzas {
            for point in Point.allCases {
                var negotiation = try NegotiationTests.reach(point)
                let action = negotiation.stanza(try stanza(xml), trailingBytes: 0)
                #expect(NegotiationTests.word(action) == expected[point] ?? "-", "\(name) in \(point)")
            }
        }
        for point in Point.allCases {
            var negotiation = try NegotiationTests.reach(point)
            let error = try stanza(
                "<stream:error><host-unknown xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>"
            )
            let action = negotiation.stanza(error, trailingBytes: 0)
            #expect(NegotiationTests.word(action) == (point == .finished ? "-" : "fail stream_error"), "\(point)")
        }
    }

    @Test("every state with every other event: each end is reported once")
    func everyStateWithEveryOtherEvent() throws {
        for point in Point.allCases {
            for encrypted in [true, false] {
                var negotiation = try NegotiationTests.reach(point)
                switch negotiation.transportReady(encrypted: encrypted) {
                case .send: #expect(encrypted && (point == .idle || point == .startingTLS), "\(point)")
                case .fail(let error):
                    #expect(!encrypted && error.code == .notEncrypted && (point == .idle || point == .startingTLS))
                case .none: #expect(point != .idle && point != .startingTLS)
                default: Issue.record("no answer to a transport: \(point)")
                }
            }
            var negotiation = try NegotiationTests.reach(point)
            let headers: [Point] = [.headerPlain, .headerSecured, .headerAuthenticated]
            switch negotiation.opened(try header(NegotiationTests.opening)) {
            case .none: #expect(headers.contains(point) || point == .finished, "\(point)")
            case .send: Issue.record("only a component answers a header: \(point)")
            case .fail(let error): #expect(!headers.contains(point) && error.code == .badStream, "\(point)")
            default: Issue.record("no answer to a header: \(point)")
            }
            for event in [Negotiation.End.streamClosed, .transportClosed, .timedOut] {
                var negotiation = try NegotiationTests.reach(point)
                let error = negotiation.ended(event)
                #expect(
                    error?.code == (point == .finished ? nil : event == .timedOut ? .timedOut : .closed),
                    "\(point)"
                )
                // Nothing is reported twice, and nothing is done any more.
                #expect(negotiation.ended(.streamClosed) == nil)
                #expect(negotiation.ended(.timedOut) == nil)
                #expect(negotiation.ended(.transportClosed) == nil)
                #expect(
                    NegotiationTests.word(negotiation.stanza(try stanza(NegotiationTests.mechanisms), trailingBytes: 0))
                        == "-"
                )
            }
        }
    }
}
