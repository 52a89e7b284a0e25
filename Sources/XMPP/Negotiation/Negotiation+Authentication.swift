import Vocabulary
import XMLWire

// SASL.
extension Negotiation {
    /// Chooses one of the offered mechanisms and begins it.
    mutating func authenticate(_ stanza: Stanza) -> Action {
        // A CCS speaks the protocol of its time.
        let offer = SASLOffer(stanza, profiles: settings.dialect == .xmpp ? [.extensible, .core] : [.core])
        let policy = SASLPolicy(
            dialect: settings.dialect,
            allowsPlain: settings.allowsPlain,
            requiresBinding: settings.channelBinding == .required,
            isBindingPinned: settings.isBindingPinned,
            hasCertificate: settings.certificateEnd != nil,
            hasSecret: !credentials.secret.bytes.isEmpty,
            bindings: bindings
        )
        let choice: SASLChoice
        do throws(SASLPolicy.Refusal) {
            choice = try policy.choose(among: offer)
        } catch {
            return .fail(finish(.refusal(error, offer, policy)))
        }
        let response: [UInt8]
        switch choice {
        case .plain:
            // RFC 4616 section 2: no authorization identity; the server prepares the name and the secret.
            response = [0] + Array(credentials.username.utf8) + [0] + credentials.secret.bytes
            state = .authenticating(nil)
        case .external:
            // XEP-0178: without an identity a server would choose among the certificate's addresses.
            response = Array(settings.address.utf8)
            state = .authenticating(nil)
        case .scram(let hash, let binding):
            do throws(SASLMechanismError) {
                var scram = SCRAM(
                    hash: hash,
                    credentials: try credentials.prepared(),
                    nonce: Base64.encode(nonce),
                    binding: binding,
                    offer: offer
                )
                response = scram.initialResponse()
                state = .authenticating(scram)
            } catch {
                return .fail(finish(.credentialsUnusable, error.message))
            }
        }
        signIn = SignIn(choice: choice, offer: offer)
        return .send(offer.profile.begin(choice.name, with: response))
    }

    mutating func authentication(_ stanza: Stanza, _ scram: SCRAM?) -> Action {
        guard stanza.equals(stanza.elements[0].namespace, profile.namespace) else { return .none }
        let name = stanza.string(stanza.elements[0].name)
        if name == "failure" { return saslFailure(stanza) }
        if name == "continue", profile == .extensible {
            // XEP-0388 section 2.6.3.
            let message =
                "the server wants a further step after SASL, such as a second factor: exempt this account from it"
            return .fail(finish(.authenticationRefused, message))
        }
        guard name == "challenge" || name == "success" else { return .none }
        do throws(SASLMechanismError) {
            let data = try profile.data(of: stanza)
            // Only TLS authenticates the server to PLAIN and EXTERNAL, whose success needs no check.
            guard var scram else {
                if name == "success" { return authenticated(stanza) }
                let mechanism = signIn?.choice.name ?? "SASL"
                throw SASLMechanismError(message: "the server sent a challenge where \(mechanism) has none")
            }
            if name == "success" {
                try scram.finish(with: data)
                return authenticated(stanza)
            }
            switch try scram.respond(to: data ?? []) {
            case .respond(let response):
                state = .authenticating(scram)
                return .send(profile.respond(response))
            case .derive(let derivation):
                state = .deriving(scram)
                return .derive(derivation)
            }
        } catch {
            return .fail(finish(.authenticationProtocol, error.message))
        }
    }

    /// Handles the key that ``Action/derive(_:)`` requested; without effect if the negotiation is over by now.
    package mutating func derived(_ key: Secret) -> Action {
        guard case .deriving(var scram) = state else { return .none }
        do throws(SASLMechanismError) {
            let response = try scram.derived(key)
            state = .authenticating(scram)
            return .send(profile.respond(response))
        } catch {
            return .fail(finish(.authenticationProtocol, error.message))
        }
    }

    /// Handles a stanza while the key is computed: it is our turn, so the server may only report failure.
    mutating func whileDeriving(_ stanza: Stanza) -> Action {
        stanza.element(0, is: "failure", in: profile.namespace) ? saslFailure(stanza) : .none
    }

    private var profile: SASLProfile { signIn?.offer.profile ?? .core }

    /// Handles success: a new stream; in the extensible profile the stream continues, with features to follow (XEP-0388
    /// section 2.6.1).
    private mutating func authenticated(_ success: Stanza) -> Action {
        guard profile == .extensible else {
            state = .awaitingHeader(.authenticated)
            return .restart(header)
        }
        guard let child = success.child("authorization-identifier", in: XMLNamespace.sasl2),
            let address = JID(success.string(success.elements[child].text)), address.local != nil,
            settings.domainSpellings.contains(where: { JID($0)?.domain == address.domain })
        else {
            return .fail(
                finish(.authenticationProtocol, "the server accepts us as nobody of this domain: check `domain`")
            )
        }
        state = .awaitingFeatures(.authenticated)
        return .none
    }

    private mutating func saslFailure(_ stanza: Stanza) -> Action {
        .fail(finish(.sasl(stanza.condition(in: XMLNamespace.sasl) ?? .undefinedCondition, signIn?.choice)))
    }
}
