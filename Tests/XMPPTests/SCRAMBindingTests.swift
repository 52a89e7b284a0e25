import Digests
import Testing
import Vocabulary

@testable import XMPP

/// SCRAM with channel binding, and with the server's word on what it had offered.
@Suite struct SCRAMBindingTests {
    private static let nonce = "12C4CD5C-E38E-4A98-8F6D-15C38F51CCC6"
    private static let serverNonce = nonce + "a09117a6-ac50-4f2f-93f1-93799c2bddf6"
    private static let challenge = "r=\(serverNonce),s=QSXCR+Q6sek8bf92,i=4096"
    /// The keying material of the example in XEP-0388, whose proofs are not those of its password.
    private static let material: [UInt8] = Array(
        Base64.decode(Array("xyhC850EN493g6zCWYBZXd2DVrVaHW1g9MHBWJ3XRVQ=".utf8)) ?? []
    )

    private static func exchange(
        _ flag: ChannelBindingFlag,
        _ offer: SASLOffer = SASLOffer(mechanisms: []),
        hash: HashFunction = .sha1
    ) -> SCRAM {
        SCRAM(
            hash: hash,
            credentials: SASLCredentials(username: "user", secret: Secret(Array("pencil".utf8))),
            nonce: Array(nonce.utf8),
            binding: flag,
            offer: offer
        )
    }

    private static func text(_ bytes: [UInt8]?) -> String { String(decoding: bytes ?? [], as: UTF8.self) }

    @Test("the proof covers the keying material: computed with Python's hashlib")
    func exporter() throws {
        var exchange = Self.exchange(.bound(ChannelBinding(.exporter, data: Self.material)))
        #expect(Self.text(exchange.initialResponse()) == "p=tls-exporter,,n=user,r=\(Self.nonce)")
        guard case .derive(let derivation) = try exchange.respond(to: Array(Self.challenge.utf8)) else {
            throw Unexpected("no key")
        }
        let proof = Self.text(try exchange.derived(derivation.run()))
        let binding = "cD10bHMtZXhwb3J0ZXIsLMcoQvOdBDePd4OswlmAWV3dg1a1Wh1tYPTBwVid10VU"
        #expect(proof == "c=\(binding),r=\(Self.serverNonce),p=+8UyrQAeVIqsH2YovGeGTRx6zBM=")
        var other = exchange
        #expect(throws: SASLMechanismError.self) {
            try other.finish(with: Array("v=rmF9pqV8S7suAoZWja4dJRkFsKQ=".utf8))
        }
        try exchange.finish(with: Array("v=GRqYg0SPMGrqPRk5HfMz9nGHq94=".utf8))
    }

    @Test("the header of the first message is what the last one repeats")
    func flags() throws {
        let rows: [(ChannelBindingFlag, String, String)] = [
            (.unsupported, "n,,", "biws"), (.notOffered, "y,,", "eSws"),
            (.bound(ChannelBinding(.unique, data: [0, 255])), "p=tls-unique,,", "cD10bHMtdW5pcXVlLCwA/w=="),
            (
                .bound(ChannelBinding(.endPoint, data: [])), "p=tls-server-end-point,,",
                "cD10bHMtc2VydmVyLWVuZC1wb2ludCws"
            ),
        ]
        for (flag, header, encoded) in rows {
            var exchange = Self.exchange(flag)
            #expect(Self.text(exchange.initialResponse()) == "\(header)n=user,r=\(Self.nonce)")
            guard case .derive(let derivation) = try exchange.respond(to: Array(Self.challenge.utf8)) else {
                throw Unexpected("no key")
            }
            #expect(Self.text(try exchange.derived(derivation.run())).hasPrefix("c=\(encoded),r="), "\(header)")
        }
    }

    @Test("a binding shows its type and never its value")
    func noValueIsShown() {
        let flag = ChannelBindingFlag.bound(ChannelBinding(.exporter, data: [0xde, 0xad]))
        var dumped = ""
        dump(flag, to: &dumped)
        for text in ["\(flag)", String(reflecting: flag), dumped] {
            #expect(text.contains("tls-exporter") && !text.contains("222") && !text.contains("173"), "\(text)")
        }
    }

    // XEP-0474 section 5.3.
    private static let offer = SASLOffer(
        mechanisms: ["SCRAM-SHA-1-PLUS", "SCRAM-SHA-1"],
        bindings: ["tls-server-end-point", "tls-exporter"]
    )
    private static let digest = "G6k/rBLDqgOhRRaCuuatSDFkJ08="

    private static func begin(_ offer: SASLOffer, _ more: String, hash: HashFunction = .sha1) throws {
        var exchange = exchange(.notOffered, offer, hash: hash)
        _ = exchange.initialResponse()
        _ = try exchange.respond(to: Array((challenge + more).utf8))
    }

    @Test("the server's hash of its offer is that of the offer that reached us: the example of XEP-0474")
    func downgradeProtection() throws {
        try Self.begin(Self.offer, ",h=\(Self.digest)")
        try Self.begin(Self.offer, ",x=y,h=\(Self.digest),z=")
        try Self.begin(Self.offer, "")
        let changed = [
            SASLOffer(mechanisms: ["SCRAM-SHA-1"], bindings: Self.offer.bindings),
            SASLOffer(mechanisms: Self.offer.mechanisms, bindings: ["tls-server-end-point"]),
            SASLOffer(mechanisms: Self.offer.mechanisms, bindings: nil),
            SASLOffer(mechanisms: Self.offer.mechanisms, bindings: []),
            SASLOffer(mechanisms: Self.offer.mechanisms + ["PLAIN"], bindings: Self.offer.bindings),
            SASLOffer(mechanisms: ["SCRAM-SHA-1\u{1e}SCRAM-SHA-1-PLUS", ""], bindings: Self.offer.bindings),
        ]
        for offer in changed {
            let error = try #require(throws: SASLMechanismError.self) { try Self.begin(offer, ",h=\(Self.digest)") }
            #expect(error.message.contains("XEP-0474"), "\(offer)")
        }
        for more in [",h=", ",h=\(Self.digest.dropLast())", ",h=\(Self.digest),h=AAAA", ",h=AAAA,h=\(Self.digest)"] {
            #expect(throws: SASLMechanismError.self, "\(more)") { try Self.begin(Self.offer, more) }
        }
        // By the mechanism's own hash function.
        #expect(throws: SASLMechanismError.self) { try Self.begin(Self.offer, ",h=\(Self.digest)", hash: .sha256) }
    }

    @Test("what a server says about channel binding at the end is explained")
    func endings() throws {
        for (condition, words) in [
            ("channel-bindings-dont-match", "not ours"), ("server-does-support-channel-binding", "off its list"),
            ("unsupported-channel-binding-type", "unsupported-channel-binding-type"),
        ] {
            var exchange = Self.exchange(.notOffered)
            _ = exchange.initialResponse()
            guard case .derive(let derivation) = try exchange.respond(to: Array(Self.challenge.utf8)) else {
                throw Unexpected("no key")
            }
            _ = try exchange.derived(derivation.run())
            let error = try #require(throws: SASLMechanismError.self) {
                try exchange.finish(with: Array("e=\(condition)".utf8))
            }
            #expect(error.message.contains(words), "\(error.message)")
        }
    }

    @Test("through a negotiation: the strongest type of the connection is taken, and a refusal names what it may mean")
    func inANegotiation() throws {
        let sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
        let plus =
            "<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-server-end-point'/>"
            + "<channel-binding type='tls-exporter'/></sasl-channel-binding><mechanisms xmlns='\(sasl)'>"
            + "<mechanism>SCRAM-SHA-256</mechanism><mechanism>SCRAM-SHA-256-PLUS</mechanism></mechanisms>"
        let hidden = "<mechanisms xmlns='\(sasl)'><mechanism>SCRAM-SHA-256</mechanism></mechanisms>"
        for (features, name, words) in [
            (plus, "SCRAM-SHA-256-PLUS", "(tls-exporter)"), (hidden, "SCRAM-SHA-256", "off its list"),
        ] {
            var negotiation = makeNegotiation()
            let bindings = [ChannelBinding(.endPoint, data: [1]), ChannelBinding(.exporter, data: [2])]
            _ = negotiation.transportReady(encrypted: true, bindings: bindings)
            _ = negotiation.opened(try header(streamHeader))
            let offered = try stanza("<stream:features>\(features)</stream:features>")
            guard case .send(let bytes) = negotiation.stanza(offered, trailingBytes: 0) else {
                throw Unexpected("nothing sent")
            }
            #expect(Self.text(bytes).contains("mechanism=\"\(name)\""))
            #expect(negotiation.signIn?.choice.name == name)
            let refusal = try stanza("<failure xmlns='\(sasl)'><not-authorized/></failure>")
            guard case .fail(let error) = negotiation.stanza(refusal, trailingBytes: 0) else {
                throw Unexpected("went on")
            }
            #expect(error.code == .authenticationRefused && error.message.contains(words), "\(error.message)")
        }
        // An offer of binding that was made unusable ends it before anything is sent.
        var negotiation = makeNegotiation()
        _ = negotiation.transportReady(encrypted: true, bindings: [ChannelBinding(.exporter, data: [2])])
        _ = negotiation.opened(try header(streamHeader))
        let lying = plus.replacing("tls-exporter", with: "x-none").replacing("tls-server-end-point", with: "x-less")
        let offered = try stanza("<stream:features>\(lying)</stream:features>")
        guard case .fail(let error) = negotiation.stanza(offered, trailingBytes: 0) else { throw Unexpected("went on") }
        #expect(error.code == .noMechanism && error.message.contains("changed its list"))
    }
}
