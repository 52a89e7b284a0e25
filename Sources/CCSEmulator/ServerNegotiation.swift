import Foundation
import XMLWire

/// The server's side of stream set-up, from the first header to the bind (docs/protocol.md, Setting up a stream).
struct ServerNegotiation {
    enum State: Equatable {
        /// Only STARTTLS is allowed; goes to `waitsForTLS` or `failed`.
        case plain
        /// `<proceed/>` was sent; goes to `secure`.
        case waitsForTLS
        /// Waits for SASL; goes to `signedIn`, stays after a refusal.
        case secure
        /// Waits for bind; goes to `bound`.
        case signedIn(sender: String)
        case bound
        /// The peer broke the protocol.
        case failed
    }

    enum Action: Equatable {
        case write(String)
        /// Starts TLS as the server; a new stream document follows.
        case startTLS
        case restart
        case signedIn
        case refused
        case bound(sender: String)
        /// Ends the stream with this error: the peer broke the protocol.
        case violation(condition: String)
    }

    private static let maximumRefusals = 3

    private let configuration: EmulatorConfiguration
    /// Whether to refuse every client.
    private let refusesAll: Bool
    private var state: State
    private var refusals = 0

    init(_ configuration: EmulatorConfiguration, refusesAll: Bool) {
        self.configuration = configuration
        self.refusesAll = refusesAll
        state = configuration.security == .startTLS ? .plain : .secure
    }

    mutating func opened(to domain: String?, streamID: String) -> [Action] {
        let from = XMLEscape.string(domain ?? configuration.domain)
        let header =
            "<?xml version='1.0'?><stream:stream from=\"\(from)\" id=\"\(streamID)\" version=\"1.0\" "
            + "xmlns=\"jabber:client\" xmlns:stream=\"http://etherx.jabber.org/streams\">"
        switch state {
        case .plain:
            return [.write(header + features("<starttls xmlns=\"\(Namespace.tls)\"><required/></starttls>"))]
        case .secure:
            let mechanisms = ["X-OAUTH2", "X-GOOGLE-TOKEN", "PLAIN"].map { "<mechanism>\($0)</mechanism>" }.joined()
            return [.write(header + features("<mechanisms xmlns=\"\(Namespace.sasl)\">\(mechanisms)</mechanisms>"))]
        case .signedIn:
            let session = configuration.offersSession ? "<session xmlns=\"\(Namespace.session)\"/>" : ""
            return [.write(header + features("<bind xmlns=\"\(Namespace.bind)\"/>" + session))]
        case .waitsForTLS, .bound, .failed:
            return fail("policy-violation")
        }
    }

    mutating func secured() {
        if state == .waitsForTLS { state = .secure }
    }

    mutating func received(_ stanza: Stanza, resource: String) -> [Action] {
        switch state {
        case .plain:
            guard stanza.element(0, is: "starttls", in: Namespace.tls) else { return fail("policy-violation") }
            state = .waitsForTLS
            return [.write("<proceed xmlns=\"\(Namespace.tls)\"/>"), .startTLS]
        case .secure:
            guard stanza.element(0, is: "auth", in: Namespace.sasl) else { return fail("not-authorized") }
            return signIn(stanza)
        case .signedIn(let sender):
            guard stanza.element(0, is: "iq", in: "jabber:client"),
                let bind = stanza.child("bind", in: Namespace.bind)
            else { return fail("not-authorized") }
            let wanted = stanza.child("resource", in: Namespace.bind, of: bind)
            let name = wanted.map { stanza.string(stanza.elements[$0].text) }.flatMap { $0.isEmpty ? nil : $0 }
            state = .bound
            let jid = XMLEscape.string("\(sender)@\(configuration.domain)/\(name ?? resource)")
            let result =
                "<iq type=\"result\"\(ServerStanzas.id(of: stanza))><bind xmlns=\"\(Namespace.bind)\"><jid>\(jid)</jid>"
                + "</bind></iq>"
            return [.write(result), .bound(sender: sender)]
        case .waitsForTLS, .bound, .failed:
            return fail("policy-violation")
        }
    }

    private mutating func signIn(_ stanza: Stanza) -> [Action] {
        let mechanism = stanza.attribute("mechanism", of: 0).map { stanza.string($0) }
        guard mechanism == "PLAIN" else { return refuse("invalid-mechanism") }
        guard let plain = SASLPlain(base64: stanza.string(stanza.elements[0].text)) else {
            return refuse("malformed-request")
        }
        guard !refusesAll, accepts(plain) else { return refuse("not-authorized") }
        state = .signedIn(sender: plain.sender)
        return [.write("<success xmlns=\"\(Namespace.sasl)\"/>"), .restart, .signedIn]
    }

    private func accepts(_ plain: SASLPlain) -> Bool {
        switch configuration.credentials {
        case .any: !plain.sender.isEmpty
        case .secrets(let secrets): secrets[plain.sender] == plain.secret
        }
    }

    private mutating func refuse(_ condition: String) -> [Action] {
        refusals += 1
        let failure = "<failure xmlns=\"\(Namespace.sasl)\"><\(condition)/></failure>"
        return [.write(failure), .refused] + (refusals < Self.maximumRefusals ? [] : fail("policy-violation"))
    }

    private mutating func fail(_ condition: String) -> [Action] {
        state = .failed
        return [.violation(condition: condition)]
    }

    private func features(_ content: String) -> String {
        configuration.usesForeignFeaturePrefix
            ? "<str:features xmlns:str=\"http://etherx.jabber.org/streams\">\(content)</str:features>"
            : "<stream:features>\(content)</stream:features>"
    }
}

/// The initial response of SASL PLAIN (RFC 4616).
struct SASLPlain: Equatable {
    /// The sender id: the authentication identity up to an `@`.
    var sender: String
    var secret: String

    /// Decodes base64 of `authzid NUL authcid NUL password`; nil for anything else.
    init?(base64: String) {
        guard let data = Data(base64Encoded: base64) else { return nil }
        let parts = data.split(separator: 0, omittingEmptySubsequences: false)
        guard parts.count == 3, !parts[1].isEmpty, let user = String(bytes: parts[1], encoding: .utf8),
            let secret = String(bytes: parts[2], encoding: .utf8)
        else { return nil }
        sender = String(user.prefix { $0 != "@" })
        self.secret = secret
    }
}

enum Namespace {
    static let tls: StaticString = "urn:ietf:params:xml:ns:xmpp-tls"
    static let sasl: StaticString = "urn:ietf:params:xml:ns:xmpp-sasl"
    static let bind: StaticString = "urn:ietf:params:xml:ns:xmpp-bind"
    static let session: StaticString = "urn:ietf:params:xml:ns:xmpp-session"
    static let stanzas: StaticString = "urn:ietf:params:xml:ns:xmpp-stanzas"
    static let streams: StaticString = "urn:ietf:params:xml:ns:xmpp-streams"
    static let stream: StaticString = "http://etherx.jabber.org/streams"
}
