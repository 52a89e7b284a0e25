import Vocabulary
import XMLWire

// SASL.
extension Negotiation {
    /// Chooses one of the offered mechanisms and begins it.
    mutating func authenticate(_ stanza: Stanza) -> StanzaAction {
        // A CCS speaks the protocol of its time.
        let offer = SASLOffer(stanza, profiles: configuration.dialect == .xmpp ? [.extensible, .core] : [.core])
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
        signIn = SignIn(choice: choice, offer: offer)
        let bytes = offer.profile.begin(choice.name, with: mechanism.initialResponse())
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

    /// Handles an answer in the SASL exchange.
    mutating func authentication(_ stanza: Stanza, _ mechanism: any SASLMechanism) -> StanzaAction {
        guard stanza.equals(stanza.elements[0].namespace, profile.namespace) else { return .none }
        var mechanism = mechanism
        let name = stanza.string(stanza.elements[0].name)
        if name == "failure" { return .fail(finish(.sasl(saslFailure(stanza), signIn?.choice))) }
        if name == "continue", profile == .extensible { return .fail(finish(.furtherStep)) }
        guard name == "challenge" || name == "success" else { return .none }
        do throws(SASLMechanismError) {
            let data = try profile.data(of: stanza)
            if name == "success" {
                try mechanism.finish(with: data)
                if profile == .extensible { return authenticated(stanza) }
                state = .awaitingHeader(.authenticated)
                return .restart(header)
            }
            switch try mechanism.respond(to: data ?? []) {
            case .respond(let response):
                state = .authenticating(mechanism)
                return .send(profile.respond(response))
            case .derive(let derivation):
                state = .deriving(mechanism)
                return .derive(derivation)
            }
        } catch {
            return .fail(finish(NegotiationError(.authenticationProtocol, error.message, isAuthentication: true)))
        }
    }

    /// Handles the key that ``StanzaAction/derive(_:)`` requested.
    ///
    /// - Returns: The next step; none if the negotiation is over by now.
    package mutating func derived(_ key: Secret) -> StanzaAction {
        guard case .deriving(var mechanism) = state else { return .none }
        do throws(SASLMechanismError) {
            let response = try mechanism.derived(key)
            state = .authenticating(mechanism)
            return .send(profile.respond(response))
        } catch {
            return .fail(finish(NegotiationError(.authenticationProtocol, error.message, isAuthentication: true)))
        }
    }

    /// Handles a stanza while the key is computed: it is our turn, so the server may only report failure.
    mutating func whileDeriving(_ stanza: Stanza) -> StanzaAction {
        guard stanza.element(0, is: "failure", in: profile.namespace) else { return .none }
        return .fail(finish(.sasl(saslFailure(stanza), signIn?.choice)))
    }

    /// The profile of the current exchange.
    private var profile: SASLProfile { signIn?.offer.profile ?? .core }

    /// Handles success in the extensible profile: the stream continues, with features to follow (XEP-0388 section
    /// 2.6.1).
    private mutating func authenticated(_ success: Stanza) -> StanzaAction {
        guard let child = success.child("authorization-identifier", in: XMLNamespace.sasl2),
            let address = JID(success.string(success.elements[child].text)), address.local != nil,
            configuration.domainSpellings.contains(where: { JID($0)?.domain == address.domain })
        else {
            return .fail(
                finish(
                    NegotiationError(
                        .authenticationProtocol,
                        "the server accepts us as nobody of this domain: check `domain`",
                        isAuthentication: true
                    )
                )
            )
        }
        state = .awaitingFeatures(.authenticated)
        return .none
    }

    private func saslFailure(_ stanza: Stanza) -> SASLFailureCondition {
        for child in stanza.children() where stanza.equals(stanza.elements[child].namespace, XMLNamespace.sasl) {
            if let known = SASLFailureCondition(rawValue: stanza.string(stanza.elements[child].name)) { return known }
        }
        return .undefinedCondition
    }
}
