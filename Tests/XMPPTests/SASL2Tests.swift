import Digests
import Testing
import Vocabulary
import XMLWire

@testable import XMPP

/// The extensible profile of SASL (XEP-0388), as conversations.
@Suite struct SASL2Tests {
    private static let sasl2 = "urn:xmpp:sasl:2"
    private static let core = "urn:ietf:params:xml:ns:xmpp-sasl"
    private static let listed =
        "<sasl-channel-binding xmlns='urn:xmpp:sasl-cb:0'><channel-binding type='tls-exporter'/></sasl-channel-binding>"
    private static let binding = ChannelBinding(.exporter, data: [7, 7])

    private static func mechanisms(_ names: String...) -> String {
        names.map { "<mechanism>\($0)</mechanism>" }.joined()
    }

    /// A server that offers both profiles.
    private static let both =
        "<stream:features><mechanisms xmlns='\(core)'>\(mechanisms("SCRAM-SHA-1"))</mechanisms>"
        + "<authentication xmlns='\(sasl2)'>\(mechanisms("SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"))"
        + "<inline><bind xmlns='urn:xmpp:bind:0'/></inline></authentication>\(listed)</stream:features>"

    /// A negotiation, and what has come of it so far.
    private struct Begun: ~Copyable {
        var negotiation: Negotiation
        /// What it did about the features.
        var action: Negotiation.Action
        /// The server's proof, once ours is sent.
        var signature = ""

        mutating func hear(_ xml: String) throws -> Negotiation.Action {
            negotiation.stanza(try stanza(xml), trailingBytes: 0)
        }
    }

    /// A negotiation that has heard these features.
    private static func begin(
        _ features: String = both,
        dialect: Dialect = .xmpp
    ) throws -> Begun {
        var negotiation = makeNegotiation {
            $0 = StreamSettings(senderID: "user", domain: "example.org", dialect: dialect)
            $0.domainSpellings = ["example.org", "xn--exmple-cua.org"]
        }
        guard case .send(let bytes) = negotiation.transportReady(encrypted: true, bindings: [binding]) else {
            throw Unexpected("no header")
        }
        // XEP-0388 section 2.1: the account is named with the stream, once that is encrypted.
        #expect(text(bytes).contains(" from=\"user@example.org\"") == (dialect == .xmpp))
        _ = negotiation.opened(try header(streamHeader))
        let action = negotiation.stanza(try stanza(features), trailingBytes: 0)
        return Begun(negotiation: negotiation, action: action)
    }

    /// A negotiation whose proof is sent.
    private static func proved() throws -> Begun {
        var begun = try begin()
        guard case .send(let bytes) = begun.action else { throw Unexpected("nothing sent") }
        let request = try stanza(text(bytes))
        #expect(request.element(0, is: "authenticate", in: XMLNamespace.sasl2))
        #expect(request.attribute("mechanism", of: 0).map { request.string($0) } == "SCRAM-SHA-256-PLUS")
        // Bind 2 would have the server drop what waits for us.
        #expect(!text(bytes).contains("bind"))
        let response = try #require(request.child("initial-response", in: XMLNamespace.sasl2))
        let opening = text(try #require(Base64.decode(request.bytes[request.elements[response].text])))
        let nonce = try #require(opening.split(separator: "r=").last)
        #expect(opening == "p=tls-exporter,,n=user,r=\(nonce)")
        let challenge = "r=\(nonce)server,s=AAAA,i=4096"
        let xml = "<challenge xmlns='\(sasl2)'>\n  \(text(Base64.encode(Array(challenge.utf8))))\n</challenge>"
        guard case .derive(let derivation) = try begun.hear(xml) else { throw Unexpected("no key") }
        guard case .send(let proof) = begun.negotiation.derived(derivation.run()) else { throw Unexpected("no proof") }
        let answer = try stanza(text(proof))
        #expect(answer.element(0, is: "response", in: XMLNamespace.sasl2))
        let sent = text(try #require(Base64.decode(answer.bytes[answer.elements[0].text])))
        let covered = "\(opening.dropFirst(16)),\(challenge),\(try #require(sent.split(separator: ",p=").first))"
        let key = HashFunction.sha256.code(for: Array("Server Key".utf8), key: derivation.run().bytes)
        let signature = Base64.encode(HashFunction.sha256.code(for: Array(covered.utf8), key: key))
        begun.signature = text(Base64.encode(Array("v=\(text(signature))".utf8)))
        return begun
    }

    private static func success(_ signature: String, identifier: String = "user@example.org") -> String {
        "<success xmlns='\(sasl2)'><additional-data>\n\(signature) </additional-data>"
            + "<authorization-identifier>\(identifier)</authorization-identifier></success>"
    }

    @Test("after success the stream goes on: no new header, and an ordinary binding")
    func conversation() throws {
        var begun = try Self.proved()
        guard case .none = try begun.hear(Self.success(begun.signature)) else {
            throw Unexpected("not accepted")
        }
        let features = "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></stream:features>"
        guard case .send(let bytes) = try begun.hear(features) else { throw Unexpected("no binding") }
        #expect(text(bytes).contains("<bind xmlns=\"urn:ietf:params:xml:ns:xmpp-bind\">"))
        let signIn = begun.negotiation.signIn
        #expect(signIn?.choice.name == "SCRAM-SHA-256-PLUS" && signIn?.offer.profile == .extensible)
    }

    @Test("a success for somebody else's domain, or for nobody, without proof or with a wrong one, is none")
    func successes() throws {
        for identifier in ["user@example.com", "user@sub.example.org", "example.org", "", "user@", "@example.org"] {
            var begun = try Self.proved()
            guard case .fail(let error) = try begun.hear(Self.success(begun.signature, identifier: identifier)) else {
                throw Unexpected("accepted \(identifier)")
            }
            #expect(error.code == .authenticationProtocol, "\(identifier)")
        }
        for data in [
            "", "<additional-data/>", "<additional-data>dj0=</additional-data>", "<additional-data>*</additional-data>",
        ] {
            var begun = try Self.proved()
            let xml =
                "<success xmlns='\(Self.sasl2)'>\(data)<authorization-identifier>user@example.org</authorization-identifier>"
                + "</success>"
            guard case .fail(let error) = try begun.hear(xml) else { throw Unexpected("accepted \(data)") }
            #expect(error.code == .authenticationProtocol, "\(data)")
        }
        // The full address and another case of the domain are the account's as well.
        for identifier in ["user@example.org/r", "USER@Example.ORG", "user@xn--exmple-cua.org"] {
            var begun = try Self.proved()
            let xml = Self.success(begun.signature, identifier: identifier)
            guard case .none = try begun.hear(xml) else { throw Unexpected("refused") }
        }
    }

    @Test("a second factor is not ours to give, a failure is read, and the other profile's elements count for nothing")
    func otherEndings() throws {
        var begun = try Self.proved()
        for xml in ["<success xmlns='\(Self.core)'/>", "<failure xmlns='\(Self.core)'><not-authorized/></failure>"] {
            guard case .none = try begun.hear(xml) else { throw Unexpected("\(xml)") }
        }
        let rows: [(String, NegotiationError.Code)] = [
            ("<continue xmlns='\(Self.sasl2)'><tasks><task>TOTP</task></tasks></continue>", .authenticationRefused),
            (
                "<failure xmlns='\(Self.sasl2)'><temporary-auth-failure xmlns='\(Self.core)'/></failure>",
                .authenticationUnavailable
            ),
        ]
        for (xml, code) in rows {
            var begun = try Self.proved()
            guard case .fail(let error) = try begun.hear(xml) else { throw Unexpected("went on: \(xml)") }
            #expect(error.code == code && error.code.isAuthentication, "\(xml)")
        }
        guard case .fail = try Self.whileDeriving() else { throw Unexpected("went on") }
    }

    /// A failure that comes while the key is computed.
    private static func whileDeriving() throws -> Negotiation.Action {
        var begun = try begin()
        guard case .send(let bytes) = begun.action else { throw Unexpected("nothing sent") }
        let request = try stanza(text(bytes))
        let response = try #require(request.child("initial-response", in: XMLNamespace.sasl2))
        let opening = text(try #require(Base64.decode(request.bytes[request.elements[response].text])))
        let nonce = try #require(opening.split(separator: "r=").last)
        let challenge = text(Base64.encode(Array("r=\(nonce)server,s=AAAA,i=4096".utf8)))
        _ = try begun.hear("<challenge xmlns='\(sasl2)'>\(challenge)</challenge>")
        return try begun.hear("<failure xmlns='\(sasl2)'><aborted xmlns='\(core)'/></failure>")
    }

    @Test("the same rules hold: no list of types, no binding mechanism, nothing but PLAIN")
    func rules() throws {
        func offer(_ mechanisms: String, _ more: String = "") -> String {
            "<stream:features><authentication xmlns='\(Self.sasl2)'>\(mechanisms)</authentication>\(more)</stream:features>"
        }
        let rows: [(String, String)] = [
            (offer(Self.mechanisms("SCRAM-SHA-1", "SCRAM-SHA-1-PLUS")), "XEP-0440"),
            (offer(Self.mechanisms("SCRAM-SHA-1"), Self.listed), "-PLUS"),
            (offer(Self.mechanisms("PLAIN")), "`allow_plain: true`"), (offer(""), "offered: none"),
        ]
        for (features, words) in rows {
            guard case .fail(let error) = try Self.begin(features).action else { throw Unexpected("went on") }
            #expect(error.code == .noMechanism && error.message.contains(words), "\(error.message)")
        }
        guard case .send(let bytes) = try Self.begin(offer(Self.mechanisms("SCRAM-SHA-1"))).action else {
            throw Unexpected("nothing sent")
        }
        // eSws is `y,,`.
        #expect(text(bytes).contains("<initial-response>eSws"))
    }

    @Test("a server without it gets the older profile, and so does a CCS")
    func fallBack() throws {
        let old =
            "<stream:features><mechanisms xmlns='\(Self.core)'>\(Self.mechanisms("SCRAM-SHA-1"))</mechanisms></stream:features>"
        for (features, dialect) in [(old, Dialect.xmpp), (old, .ccs)] {
            guard case .send(let bytes) = try Self.begin(features, dialect: dialect).action else {
                throw Unexpected("nothing sent")
            }
            #expect(text(bytes).hasPrefix("<auth xmlns=\"\(Self.core)\" mechanism=\"SCRAM-SHA-1\">"))
        }
        // What is listed for the other profile says nothing about this one.
        guard case .fail = try Self.begin(dialect: .ccs).action else { throw Unexpected("went on") }
    }
}
