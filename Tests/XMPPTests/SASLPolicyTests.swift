import Testing
import Vocabulary

@testable import XMPP

/// Which of a server's mechanisms is taken, and what is refused.
@Suite struct SASLPolicyTests {
    private static let exporter = ChannelBinding(.exporter, data: [1])
    private static let unique = ChannelBinding(.unique, data: [2])
    private static let endPoint = ChannelBinding(.endPoint, data: [3])
    /// What each version of TLS gives.
    private static let tls13 = [exporter, endPoint]
    private static let tls12 = [exporter, unique, endPoint]

    private static let scram = ["SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    private static let plus = scram.map { $0 + "-PLUS" }

    /// The choice as `mechanism flag`, or the refusal.
    private static func outcome(
        _ mechanisms: [String],
        list: [String]? = nil,
        tls: [ChannelBinding] = [],
        dialect: Dialect = .xmpp,
        plain: Bool = false,
        required: Bool = false,
        pinned: Bool = false
    ) -> String {
        let policy = SASLPolicy(
            dialect: dialect,
            allowsPlain: plain,
            requiresBinding: required,
            isBindingPinned: pinned,
            bindings: tls
        )
        do throws(SASLPolicy.Refusal) {
            let choice = try policy.choose(among: SASLOffer(mechanisms: mechanisms, bindings: list))
            guard case .scram(_, let flag) = choice else { return choice.name }
            return "\(choice.name) \(String(decoding: flag.header, as: UTF8.self).dropLast(2))"
        } catch {
            return "\(error)"
        }
    }

    @Test("without TLS of ours: by hash, and the secret itself only where it is allowed and nothing else will do")
    func choice() {
        #expect(Self.outcome(["PLAIN"] + Self.scram) == "SCRAM-SHA-512 n")
        #expect(Self.outcome(["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256"]) == "SCRAM-SHA-256 n")
        #expect(Self.outcome(["PLAIN", "SCRAM-SHA-1"], plain: true) == "SCRAM-SHA-1 n")
        #expect(Self.outcome(["PLAIN", "X-OAUTH2"]) == "nothingUsable")
        #expect(Self.outcome(["PLAIN", "X-OAUTH2"], plain: true) == "PLAIN")
        #expect(Self.outcome(["PLAIN"] + Self.scram, dialect: .ccs, plain: true) == "PLAIN")
        #expect(Self.outcome(Self.scram, dialect: .ccs, plain: true) == "SCRAM-SHA-512 n")
        #expect(Self.outcome(["PLAIN"], dialect: .ccs) == "nothingUsable")
        #expect(Self.outcome([]) == "nothingUsable")
        // Names are compared byte by byte, and counted once.
        #expect(Self.outcome(["scram-sha-256", "DIGEST-MD5", " SCRAM-SHA-1"]) == "nothingUsable")
        #expect(Self.outcome(Array(repeating: "SCRAM-SHA-1", count: 4_000)) == "SCRAM-SHA-1 n")
    }

    @Test("a sender that has signed in bound is told apart from one that must, and may sign in by certificate")
    func pinned() {
        var policy = SASLPolicy(dialect: .xmpp, allowsPlain: true, isBindingPinned: true, bindings: Self.tls13)
        let offer = SASLOffer(mechanisms: Self.scram + ["PLAIN", "EXTERNAL"], bindings: nil)
        let text = NegotiationError.refusal(.bindingRequired, offer, policy).message
        #expect(text.contains("(pinned)") && text.contains("check --forget-pin") && !text.contains("`channel_binding:"))
        policy.requiresBinding = true
        #expect(
            NegotiationError.refusal(.bindingRequired, offer, policy).message.contains("`channel_binding: required`")
        )
        policy.hasCertificate = true
        #expect((try? policy.choose(among: offer)) == .external)
    }

    @Test(
        "where binding is required, or pinned, nothing else is taken, whatever was offered",
        arguments: [true, false]
    )
    func required(_ pinned: Bool) {
        let listed = ["tls-exporter"]
        func outcome(_ mechanisms: [String], list: [String]? = nil, tls: [ChannelBinding] = Self.tls13) -> String {
            Self.outcome(mechanisms, list: list, tls: tls, plain: true, required: !pinned, pinned: pinned)
        }
        #expect(outcome(Self.scram + Self.plus, list: listed) == "SCRAM-SHA-512-PLUS p=tls-exporter")
        #expect(outcome(Self.scram + ["PLAIN"]) == "bindingRequired")
        #expect(outcome(["PLAIN"]) == "bindingRequired")
        #expect(outcome([]) == "bindingRequired")
        #expect(outcome(Self.scram + Self.plus, list: listed, tls: []) == "bindingRequired")
        // Which type is meant is unknown, but the proof is bound.
        #expect(outcome(Self.plus, tls: Self.tls13) == "SCRAM-SHA-512-PLUS p=tls-exporter")
        #expect(outcome(Self.scram + Self.plus, tls: Self.tls13) == "bindingRequired")
    }

    @Test("a mechanism that binds comes before a stronger hash that does not, by the strongest type of both sides")
    func binding() {
        let all = ["SCRAM-SHA-512", "SCRAM-SHA-1-PLUS", "PLAIN"]
        let listed = ["tls-server-end-point", "tls-unique", "tls-exporter", "other"]
        #expect(Self.outcome(all, list: listed, tls: Self.tls13) == "SCRAM-SHA-1-PLUS p=tls-exporter")
        #expect(Self.outcome(all, list: listed, tls: Self.tls12) == "SCRAM-SHA-1-PLUS p=tls-exporter")
        #expect(
            Self.outcome(Self.plus + Self.scram, list: listed, tls: Self.tls13) == "SCRAM-SHA-512-PLUS p=tls-exporter"
        )
        #expect(
            Self.outcome(all, list: ["tls-unique", "tls-server-end-point"], tls: Self.tls13)
                == "SCRAM-SHA-1-PLUS p=tls-server-end-point"
        )
        #expect(Self.outcome(all, list: ["tls-unique"], tls: Self.tls12) == "SCRAM-SHA-1-PLUS p=tls-unique")
        // Without a list the type is the one that RFC 5802 names.
        #expect(Self.outcome(all, tls: Self.tls12) == "SCRAM-SHA-1-PLUS p=tls-unique")
        // TLS without anything to bind to.
        #expect(Self.outcome(all, list: listed) == "SCRAM-SHA-512 n")
    }

    @Test("without an offer of binding the server is told that we could have: one that had offered it must refuse")
    func notOffered() {
        #expect(Self.outcome(Self.scram, tls: Self.tls13) == "SCRAM-SHA-512 y")
        #expect(Self.outcome(Self.scram, tls: Self.tls12) == "SCRAM-SHA-512 y")
        // No type is named, and TLS 1.3 does not have the one that is meant then.
        #expect(Self.outcome(Self.scram + Self.plus, tls: Self.tls13) == "SCRAM-SHA-512 y")
        #expect(Self.outcome(Self.plus, tls: Self.tls13) == "SCRAM-SHA-512-PLUS p=tls-exporter")
    }

    @Test("an offer of binding that can't be taken up is refused, never passed over")
    func refused() {
        for list in [["tls-unique"], ["x-nothing"], [], ["TLS-EXPORTER"]] {
            #expect(Self.outcome(Self.scram + Self.plus, list: list, tls: Self.tls13) == "unknownBindings", "\(list)")
        }
        for list in [["tls-exporter"], ["x-nothing"]] {
            #expect(Self.outcome(Self.scram, list: list, tls: Self.tls13) == "bindingWithoutMechanism", "\(list)")
        }
        // A list alone harms nobody where no SCRAM is offered.
        #expect(Self.outcome(["PLAIN"], list: ["tls-exporter"], tls: Self.tls13, plain: true) == "PLAIN")
        #expect(Self.outcome(["PLAIN"], list: ["tls-exporter"], tls: Self.tls13) == "nothingUsable")
    }

    @Test("a client certificate is used where the server offers that, and without a secret nothing else is")
    func external() {
        func outcome(_ mechanisms: [String], secret: Bool, dialect: Dialect = .xmpp) -> String {
            let policy = SASLPolicy(
                dialect: dialect,
                allowsPlain: true,
                hasCertificate: true,
                hasSecret: secret,
                bindings: Self.tls13
            )
            do throws(SASLPolicy.Refusal) {
                return try policy.choose(among: SASLOffer(mechanisms: mechanisms)).name
            } catch {
                return "\(error)"
            }
        }
        for secret in [true, false] {
            #expect(outcome(["PLAIN", "EXTERNAL"] + Self.scram, secret: secret) == "EXTERNAL")
            #expect(outcome(["PLAIN", "EXTERNAL"], secret: secret, dialect: .ccs) == "EXTERNAL")
        }
        #expect(outcome(["PLAIN"] + Self.scram, secret: true) == "SCRAM-SHA-512")
        #expect(outcome(["PLAIN"] + Self.scram, secret: false) == "nothingUsable")
        // Without a certificate there is nothing to be taken for.
        #expect(Self.outcome(["EXTERNAL"], plain: true) == "nothingUsable")
    }

    @Test("EXTERNAL names the account that is meant, and a refusal says what a server wants of the certificate")
    func externalInANegotiation() throws {
        func begin(_ mechanisms: String) throws -> (Negotiation.Action, NegotiationError?) {
            var negotiation = makeNegotiation(secret: "") { $0.certificateEnd = 1 }
            _ = negotiation.transportReady(encrypted: true, bindings: Self.tls13)
            _ = negotiation.opened(try header(streamHeader))
            let sasl = "urn:ietf:params:xml:ns:xmpp-sasl"
            let features = "<stream:features><mechanisms xmlns='\(sasl)'>\(mechanisms)</mechanisms></stream:features>"
            let action = negotiation.stanza(try stanza(features), trailingBytes: 0)
            let failure = try stanza("<failure xmlns='\(sasl)'><not-authorized/></failure>")
            guard case .fail(let error) = negotiation.stanza(failure, trailingBytes: 0) else { return (action, nil) }
            return (action, error)
        }
        let (action, refusal) = try begin("<mechanism>SCRAM-SHA-1</mechanism><mechanism>EXTERNAL</mechanism>")
        guard case .send(let bytes) = action else { throw Unexpected("nothing sent") }
        // echo -n user@example.org | base64
        #expect(text(bytes).hasSuffix("mechanism=\"EXTERNAL\">dXNlckBleGFtcGxlLm9yZw==</auth>"))
        #expect(refusal?.message.contains("client certificate") == true)
        guard case .fail(let missing) = try begin("<mechanism>SCRAM-SHA-1</mechanism>").0 else {
            throw Unexpected("went on without a secret")
        }
        #expect(missing.message.contains("does not offer SASL EXTERNAL (offered: SCRAM-SHA-1)"), "\(missing.message)")
    }

    @Test("the offer is read from the features by namespace, with the types as they stand")
    func features() throws {
        let xml =
            "<stream:features><sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-exporter'/>"
            + "<channel-binding/><other type='x'/><channel-binding type='a&#x9;b'/></sasl-channel-binding>"
            + "<m:mechanisms xmlns:m='urn:ietf:params:xml:ns:xmpp-sasl'><m:mechanism>PLAIN</m:mechanism>"
            + "<mechanism>SCRAM-SHA-1</mechanism><m:mechanism/></m:mechanisms></stream:features>"
        let offer = SASLOffer(try stanza(xml))
        #expect(offer == SASLOffer(mechanisms: ["PLAIN", ""], bindings: ["tls-exporter", "a\tb"]))
        #expect(SASLOffer(try stanza("<stream:features/>")) == SASLOffer(mechanisms: []))
        let signIn = SignIn(choice: .plain, offer: offer)
        #expect(signIn.offeredMechanisms == "PLAIN" && signIn.offeredBindings == ["tls-exporter"])
    }
}
