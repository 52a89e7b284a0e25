import Vocabulary
import XMLWire

// SASL.
extension Negotiation {
    /// Chooses a mechanism among those offered and begins it.
    mutating func authenticate(_ stanza: Stanza) -> StanzaAction {
        let offer = SASLOffer(stanza)
        let policy = SASLPolicy(
            dialect: configuration.dialect,
            allowsPlain: configuration.allowsPlain,
            hasCertificate: configuration.hasCertificate,
            hasSecret: !configuration.credentials.secret.bytes.isEmpty,
            bindings: bindings
        )
        let choice: SASLChoice
        do throws(SASLPolicy.Refusal) {
            choice = try policy.choose(among: offer)
        } catch {
            return .fail(finish(.refusal(error, offer, policy)))
        }
        var mechanism: any SASLMechanism
        do throws(SASLMechanismError) {
            mechanism = try self.mechanism(choice, offer)
        } catch {
            return .fail(
                finish(
                    NegotiationError(.credentialsUnusable, error.message, isAuthentication: true, isPermanent: true)
                )
            )
        }
        var bytes: [UInt8] = []
        bytes.append(xml: "<auth xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\" mechanism=\"")
        bytes += Array(choice.name.utf8)
        bytes.append(xml: "\">")
        // RFC 6120 section 6.4.2: an empty initial response is a single equals sign.
        if let response = mechanism.initialResponse() {
            bytes += response.isEmpty ? [UInt8(ascii: "=")] : Base64.encode(response)
        }
        bytes.append(xml: "</auth>")
        signIn = SignIn(choice: choice, offer: offer)
        state = .authenticating(mechanism)
        return .send(bytes)
    }

    private func mechanism(
        _ choice: SASLChoice,
        _ offer: SASLOffer
    ) throws(SASLMechanismError) -> any SASLMechanism {
        switch choice {
        case .plain: return PlainMechanism(credentials: configuration.credentials)
        case .external:
            return ExternalMechanism(address: "\(configuration.localpart)@\(configuration.domain)")
        case .scram(let hash, let binding):
            return SCRAM(
                hash,
                credentials: try configuration.credentials.prepared(),
                nonce: Base64.encode(configuration.nonce),
                binding: binding,
                offer: offer
            )
        }
    }

    /// An answer of the SASL exchange, or something else.
    mutating func authentication(_ stanza: Stanza, _ mechanism: any SASLMechanism) -> StanzaAction {
        guard stanza.equals(stanza.elements[0].namespace, XMLNamespace.sasl) else { return .none }
        var mechanism = mechanism
        let text = stanza.bytes[stanza.elements[0].text]
        let name = stanza.string(stanza.elements[0].name)
        if name == "failure" { return .fail(finish(.sasl(saslFailure(stanza), signIn?.choice))) }
        guard name == "challenge" || name == "success" else { return .none }
        let encoded = text.elementsEqual([UInt8(ascii: "=")]) ? [] : Base64.decode(text)
        do throws(SASLMechanismError) {
            guard let data = encoded else {
                throw SASLMechanismError(message: "the server's SASL message is not Base64")
            }
            if name == "success" {
                try mechanism.finish(with: text.isEmpty ? nil : data)
                state = .awaitingHeader(.authenticated)
                return .restart(header)
            }
            switch try mechanism.respond(to: data) {
            case .respond(let response):
                state = .authenticating(mechanism)
                return .send(Negotiation.saslResponse(response))
            case .derive(let derivation):
                state = .deriving(mechanism)
                return .derive(derivation)
            }
        } catch {
            return .fail(finish(NegotiationError(.authenticationProtocol, error.message, isAuthentication: true)))
        }
    }

    /// The key is there that ``StanzaAction/derive(_:)`` asked for.
    ///
    /// - Returns: What to do; nothing where the negotiation is over by now.
    package mutating func derived(_ key: Secret) -> StanzaAction {
        guard case .deriving(var mechanism) = state else { return .none }
        do throws(SASLMechanismError) {
            let response = try mechanism.derived(key)
            state = .authenticating(mechanism)
            return .send(Negotiation.saslResponse(response))
        } catch {
            return .fail(finish(NegotiationError(.authenticationProtocol, error.message, isAuthentication: true)))
        }
    }

    /// While the key is computed it is our turn: all that the server may say is that it has given up.
    mutating func whileDeriving(_ stanza: Stanza) -> StanzaAction {
        guard stanza.element(0, is: "failure", in: XMLNamespace.sasl) else { return .none }
        return .fail(finish(.sasl(saslFailure(stanza), signIn?.choice)))
    }

    private static func saslResponse(_ response: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(xml: "<response xmlns=\"urn:ietf:params:xml:ns:xmpp-sasl\">")
        bytes += Base64.encode(response)
        bytes.append(xml: "</response>")
        return bytes
    }

    private func saslFailure(_ stanza: Stanza) -> SASLFailureCondition {
        for child in stanza.children() where stanza.equals(stanza.elements[child].namespace, XMLNamespace.sasl) {
            if let known = SASLFailureCondition(rawValue: stanza.string(stanza.elements[child].name)) { return known }
        }
        return .undefinedCondition
    }
}
