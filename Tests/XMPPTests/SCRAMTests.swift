import Digests
import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// SCRAM as conversations: those of the RFCs, and those of servers that are not what they should be.
@Suite struct SCRAMTests {
    /// A conversation that stands in an RFC.
    struct Example: Sendable {
        var hash: HashFunction
        var nonce: String
        var challenge: String
        var proof: String
        var signature: String
    }

    /// RFC 5802 section 5.
    static let sha1 = Example(
        hash: .sha1,
        nonce: "fyko+d2lbbFgONRv9qkxdawL",
        challenge: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        proof: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        signature: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ="
    )
    /// RFC 7677 section 3.
    static let sha256 = Example(
        hash: .sha256,
        nonce: "rOprNGfwEbeRWgbNEkqO",
        challenge: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        proof: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            + "p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        signature: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )

    /// Computed with Python's `hashlib`: no RFC has an example.
    static let sha512 = Example(
        hash: .sha512,
        nonce: sha256.nonce,
        challenge: sha256.challenge,
        proof: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
            + "p=gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==",
        signature: "v=ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw=="
    )

    private static func exchange(_ example: Example, user: String = "user") -> SCRAM {
        SCRAM(
            hash: example.hash,
            credentials: SASLCredentials(username: user, secret: Secret(Array("pencil".utf8))),
            nonce: Array(example.nonce.utf8),
            binding: .unsupported,
            offer: SASLOffer(mechanisms: [])
        )
    }

    /// The answer to a challenge, its key computed here.
    private static func answer(_ exchange: inout SCRAM, _ challenge: String) throws -> [UInt8] {
        switch try exchange.respond(to: Array(challenge.utf8)) {
        case .respond(let bytes): bytes
        case .derive(let derivation): try exchange.derived(derivation.run())
        }
    }

    /// An exchange whose proof is sent.
    private static func proved(_ example: Example) throws -> SCRAM {
        var exchange = exchange(example)
        _ = exchange.initialResponse()
        _ = try answer(&exchange, example.challenge)
        return exchange
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }

    @Test("the conversations of RFC 5802 and RFC 7677", arguments: [sha1, sha256, sha512])
    func published(_ example: Example) throws {
        var exchange = SCRAMTests.exchange(example)
        #expect(SCRAMTests.text(exchange.initialResponse()) == "n,,n=user,r=\(example.nonce)")
        #expect(SCRAMTests.text(try SCRAMTests.answer(&exchange, example.challenge)) == example.proof)
        try exchange.finish(with: Array(example.signature.utf8))
    }

    @Test("the server's proof may come as a challenge of its own", arguments: [sha1, sha256, sha512])
    func proofAsChallenge(_ example: Example) throws {
        for rest in [nil, []] as [[UInt8]?] {
            var exchange = try SCRAMTests.proved(example)
            #expect(try SCRAMTests.answer(&exchange, example.signature) == [])
            try exchange.finish(with: rest)
        }
    }

    @Test("commas and equals signs of a name are escaped")
    func aNameIsEscaped() {
        var exchange = SCRAMTests.exchange(SCRAMTests.sha256, user: "a,b=c,")
        #expect(SCRAMTests.text(exchange.initialResponse()).hasPrefix("n,,n=a=2Cb=3Dc=2C,r="))
    }

    /// Every state with every message, right and wrong.
    @Test("every state with every message: what doesn't belong there fails")
    func everyStateWithEveryMessage() throws {
        let example = SCRAMTests.sha256
        enum Point: CaseIterable { case begun, awaitingChallenge, deriving, awaitingSignature, verified }
        func reach(_ point: Point) throws -> SCRAM {
            var exchange = SCRAMTests.exchange(example)
            if point == .begun { return exchange }
            _ = exchange.initialResponse()
            if point == .awaitingChallenge { return exchange }
            guard case .derive(let derivation) = try exchange.respond(to: Array(example.challenge.utf8)) else {
                throw Unexpected("no key asked for")
            }
            if point == .deriving { return exchange }
            _ = try exchange.derived(derivation.run())
            if point == .awaitingSignature { return exchange }
            _ = try SCRAMTests.answer(&exchange, example.signature)
            return exchange
        }
        let challenges: [(String, Set<Point>)] = [
            (example.challenge, [.awaitingChallenge]), (example.signature, [.awaitingSignature]), ("", []),
            ("v=", []), ("e=other-error", []), ("rubbish", []),
        ]
        let endings: [(String?, Set<Point>)] = [
            (nil, [.verified]), ("", [.verified]), (example.signature, [.awaitingSignature]), ("v=AAAA", []),
            (example.challenge, []),
        ]
        for point in Point.allCases {
            var early = try reach(point)
            #expect(((try? early.derived(Secret([1]))) != nil) == (point == .deriving), "a key in \(point)")
            for (text, good) in challenges {
                var exchange = try reach(point)
                let isTaken = (try? exchange.respond(to: Array(text.utf8))) != nil
                #expect(isTaken == good.contains(point), "challenge \(text) in \(point)")
            }
            for (text, good) in endings {
                var exchange = try reach(point)
                let isTaken = (try? exchange.finish(with: text.map { Array($0.utf8) })) != nil
                #expect(isTaken == good.contains(point), "success \(text ?? "without data") in \(point)")
            }
        }
    }

    @Test(
        "challenges that are no challenge, or one to refuse",
        arguments: [
            ("", "not r="), ("r=", "not r="), ("s=AAAA,r=N,i=4096", "not r="), ("r=N+,s=AAAA", "not r="),
            ("r=N+,i=4096,s=AAAA", "not r="), ("m=x,r=N+,s=AAAA,i=4096", "extension"),
            // Nonces that don't go on from ours.
            ("r=N,s=AAAA,i=4096", "nonce"), ("r=X+,s=AAAA,i=4096", "nonce"), ("r=N\u{7f},s=AAAA,i=4096", "nonce"),
            ("r=Né,s=AAAA,i=4096", "nonce"), ("r=N ,s=AAAA,i=4096", "nonce"),
            ("r=N+,s=,i=4096", "salt"), ("r=N+,s=*,i=4096", "salt"), ("r=N+,s=A,i=4096", "salt"),
            ("r=N+,s=AAAA,i=", "iterations"), ("r=N+,s=AAAA,i=4095", "iterations"), ("r=N+,s=AAAA,i=0", "iterations"),
            ("r=N+,s=AAAA,i=-4096", "iterations"), ("r=N+,s=AAAA,i=+4096", "iterations"),
            ("r=N+,s=AAAA,i=1000001", "iterations"), ("r=N+,s=AAAA,i=99999999999999999999999", "iterations"),
            ("r=N+,s=AAAA,i=5e3", "iterations"), ("r=N+,s=AAAA,i=٤٠٩٦", "iterations"),
        ]
    )
    func challengesThatAreRefused(_ text: String, _ cause: String) throws {
        var exchange = SCRAMTests.exchange(SCRAMTests.sha256)
        _ = exchange.initialResponse()
        let challenge = text.replacing("N", with: SCRAMTests.sha256.nonce)
        let error = try #require(throws: SASLMechanismError.self) { try exchange.respond(to: Array(challenge.utf8)) }
        #expect(error.message.contains(cause), "\(error.message)")
        #expect(!error.message.contains("pencil"))
    }

    @Test("4,096 and 1,000,000 rounds are accepted, one less or more is not")
    func theBoundsOfTheIterationsAreInside() throws {
        for count in ["4096", "1000000"] {
            var exchange = SCRAMTests.exchange(SCRAMTests.sha256)
            _ = exchange.initialResponse()
            let challenge = "r=\(SCRAMTests.sha256.nonce)x,s=AAAA,i=\(count),x=passed-over"
            guard case .derive(let derivation) = try exchange.respond(to: Array(challenge.utf8)) else {
                throw Unexpected("no key asked for")
            }
            #expect(derivation.iterations == Int(count) && derivation.salt == [0, 0, 0])
        }
    }

    @Test("a challenge of more than 4 KiB is refused")
    func anEndlessChallengeIsRefused() throws {
        var exchange = SCRAMTests.exchange(SCRAMTests.sha1)
        _ = exchange.initialResponse()
        let challenge = SCRAMTests.sha1.challenge + ",x=" + String(repeating: "x", count: 4_096)
        #expect(throws: SASLMechanismError.self) { try exchange.respond(to: Array(challenge.utf8)) }
    }

    @Test("a server that does not know the secret is refused, whatever it says")
    func wrongSignatures() throws {
        let good = SCRAMTests.sha256.signature
        let almost = good.replacing("6rri", with: "6rrj")
        for text in [
            almost, "v=", "v=AAAA", "v=*", String(good.dropLast(4)), "e=invalid-proof", "V" + good.dropFirst(),
        ] {
            var exchange = try SCRAMTests.proved(SCRAMTests.sha256)
            #expect(throws: SASLMechanismError.self, "\(text)") { try exchange.finish(with: Array(text.utf8)) }
            var other = try SCRAMTests.proved(SCRAMTests.sha256)
            #expect(throws: SASLMechanismError.self, "\(text)") { try other.respond(to: Array(text.utf8)) }
        }
    }

    /// Through the negotiation, as a server sees it.
    @Test("SCRAM inside of a negotiation, with the key computed outside")
    func inANegotiation() throws {
        for (answer, expected) in [(true, "restart"), (false, "fail")] {
            var negotiation = SCRAMTests.negotiation(.xmpp)
            let first = try SCRAMTests.begin(&negotiation, offering: ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256"])
            #expect(first.contains("mechanism=\"SCRAM-SHA-256\""))
            let opening = try SCRAMTests.payload(first)
            let nonce = try #require(opening.split(separator: "r=").last)
            #expect(opening == "n,,n=1234567890,r=\(nonce)" && nonce.utf8.count >= 22)
            let challenge = "r=\(nonce)server,s=AAAA,i=4096"
            guard case .derive(let derivation) = try SCRAMTests.send(&negotiation, "challenge", challenge) else {
                throw Unexpected("no key asked for")
            }
            // It is our turn: what the server says meanwhile changes nothing.
            guard case .none = try SCRAMTests.send(&negotiation, "challenge", challenge),
                case .none = try SCRAMTests.send(&negotiation, "success", "v=AAAA")
            else { throw Unexpected("went on without the key") }
            guard case .send(let bytes) = negotiation.derived(derivation.run()) else { throw Unexpected("no proof") }
            guard case .none = negotiation.derived(Secret([])) else { throw Unexpected("took a key twice") }
            let withoutProof = try SCRAMTests.payload(SCRAMTests.text(bytes)).split(separator: ",p=")[0]
            let bare = opening.dropFirst(3)
            let salted = HashFunction.sha256.derive(password: Array("pencil".utf8), salt: [0, 0, 0], iterations: 4_096)
            let signature = HashFunction.sha256.code(
                for: Array("\(bare),\(challenge),\(withoutProof)".utf8),
                key: HashFunction.sha256.code(for: Array("Server Key".utf8), key: salted)
            )
            let ending = SCRAMTests.text(Base64.encode(answer ? signature : signature.reversed()))
            switch try SCRAMTests.send(&negotiation, "success", "v=\(ending)") {
            case .restart: #expect(expected == "restart")
            case .fail(let error):
                #expect(expected == "fail" && error.code == .authenticationProtocol && error.code.isAuthentication)
                #expect(!error.message.contains("pencil"))
            default: throw Unexpected("neither")
            }
        }
    }

    @Test("a failure while the key is computed ends the negotiation, and the key then comes too late")
    func failureWhileDeriving() throws {
        var negotiation = SCRAMTests.negotiation(.xmpp)
        let opening = try SCRAMTests.payload(try SCRAMTests.begin(&negotiation, offering: ["SCRAM-SHA-1"]))
        let nonce = try #require(opening.split(separator: "r=").last)
        let challenge = "r=\(nonce)server,s=AAAA,i=4096"
        guard case .derive = try SCRAMTests.send(&negotiation, "challenge", challenge) else {
            throw Unexpected("no key")
        }
        let failure = "<failure xmlns='urn:ietf:params:xml:ns:xmpp-sasl'><temporary-auth-failure/></failure>"
        guard case .fail(let error) = negotiation.stanza(try stanza(failure), trailingBytes: 0) else {
            throw Unexpected("went on")
        }
        #expect(error.code == .authenticationUnavailable)
        guard case .none = negotiation.derived(Secret([])) else { throw Unexpected("went on after the end") }
    }

    @Test("a success without the server's proof is refused")
    func successWithoutProofIsRefused() throws {
        for data in ["", "=", "dj0="] {
            var negotiation = SCRAMTests.negotiation(.xmpp)
            _ = try SCRAMTests.begin(&negotiation, offering: ["SCRAM-SHA-1"])
            let xml = "<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(data)</success>"
            guard case .fail(let error) = negotiation.stanza(try stanza(xml), trailingBytes: 0) else {
                throw Unexpected("accepted a server without proof")
            }
            #expect(error.code == .authenticationProtocol)
        }
    }

    @Test("a list of mechanisms that was shortened to PLAIN gets no secret, and the error says what was offered")
    func aShortenedListGetsNoSecret() throws {
        var negotiation = SCRAMTests.negotiation(.xmpp)
        _ = negotiation.transportReady(encrypted: true)
        _ = negotiation.opened(try header(streamHeader))
        let list = "<mechanism>PLAIN</mechanism><mechanism>X-OAUTH2</mechanism>"
        let xml =
            "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(list)</mechanisms></stream:features>"
        guard case .fail(let error) = negotiation.stanza(try stanza(xml), trailingBytes: 0) else {
            throw Unexpected("sent something")
        }
        #expect(error.code == .noMechanism && error.code.isAuthentication)
        for words in ["offered: PLAIN, X-OAUTH2", "SCRAM-SHA-256", "`allow_plain: true`", "shortened"] {
            #expect(error.message.contains(words), "\(error.message)")
        }
        #expect(!error.message.contains("pencil"))
    }

    // The server's side of a negotiation.

    private static func negotiation(_ dialect: Dialect) -> Negotiation {
        makeNegotiation { $0 = StreamSettings(senderID: "1234567890", domain: "example.org", dialect: dialect) }
    }

    private static func begin(_ negotiation: inout Negotiation, offering names: [String]) throws -> String {
        _ = negotiation.transportReady(encrypted: true)
        _ = negotiation.opened(try header(streamHeader))
        let list = names.map { "<mechanism>\($0)</mechanism>" }.joined()
        let xml =
            "<stream:features><mechanisms xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(list)</mechanisms></stream:features>"
        guard case .send(let bytes) = negotiation.stanza(try stanza(xml), trailingBytes: 0) else {
            throw Unexpected("no auth")
        }
        return text(bytes)
    }

    private static func send(
        _ negotiation: inout Negotiation,
        _ name: String,
        _ message: String
    ) throws -> Negotiation.Action {
        let encoded = text(Base64.encode(Array(message.utf8)))
        let xml = "<\(name) xmlns='urn:ietf:params:xml:ns:xmpp-sasl'>\(encoded)</\(name)>"
        return negotiation.stanza(try stanza(xml), trailingBytes: 0)
    }

    private static func payload(_ xml: String) throws -> String {
        let element = try stanza(xml)
        return text(try #require(Base64.decode(element.bytes[element.elements[0].text])))
    }
}
