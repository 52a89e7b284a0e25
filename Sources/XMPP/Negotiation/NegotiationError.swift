import Vocabulary

/// Why a connection did not become a bound stream.
package struct NegotiationError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The kinds of failure; raw values are metric labels.
    package enum Code: String, Sendable, CaseIterable {
        case tlsNotOffered = "tls_not_offered"
        case tlsRefused = "tls_refused"
        /// Bytes came between `<proceed/>` and the TLS handshake: injected, or a broken server.
        case tlsInjection = "tls_injection"
        case notEncrypted = "not_encrypted"
        case badStream = "bad_stream"
        case noMechanism = "no_mechanism"
        /// The name or the secret has no form that the mechanism can use.
        case credentialsUnusable = "credentials_unusable"
        /// SASL failed: the server refuses the credentials or their form.
        case authenticationRefused = "authentication_refused"
        case authenticationUnavailable = "authentication_unavailable"
        /// The server broke the SASL mechanism's rules.
        case authenticationProtocol = "authentication_protocol"
        /// Binding is not offered, was refused, or gave no address.
        case bindRefused = "bind_refused"
        /// The session to resume is gone, and no other is wanted on this stream.
        case sessionGone = "session_gone"
        case streamError = "stream_error"
        /// The peer closed the stream or the connection.
        case closed
        case timedOut = "timed_out"

        /// Whether the server was asked to authenticate us and did not.
        package var isAuthentication: Bool {
            switch self {
            case .noMechanism, .credentialsUnusable, .authenticationRefused, .authenticationUnavailable,
                .authenticationProtocol:
                true
            case .tlsNotOffered, .tlsRefused, .tlsInjection, .notEncrypted, .badStream, .bindRefused, .sessionGone,
                .streamError, .closed, .timedOut:
                false
            }
        }
    }

    package var code: Code
    /// Cause and fix, for an operator; never a secret.
    package var message: String
    /// The defined condition that the server named; nil if it named none.
    package var condition: String?
    /// The other host named by a stream error, made safe for a log; otherwise nil.
    package var otherHost: String?

    package init(_ code: Code, _ message: String, condition: String? = nil) {
        self.code = code
        self.message = message
        self.condition = condition
    }

    package var description: String { message }
}

extension NegotiationError {
    /// The meaning of a stream error during negotiation.
    static func stream(_ error: StreamError) -> NegotiationError {
        let fix =
            switch error.condition {
            case .hostUnknown, .hostGone:
                "the server does not serve this domain: set the sender's `domain` to the one it serves"
            case .seeOtherHost:
                "the server sends us to another host: put it into `redirect_hosts` if it is to be trusted"
            case .policyViolation:
                "the server's policy refuses this connection, for example one without TLS: see the server's log"
            case .conflict:
                "another connection uses the same resource: give each worker an account of its own, or another `resource`"
            case .notAuthorized: "the server ended the stream before authentication was complete"
            default: "see the server's log"
            }
        var failure = NegotiationError(
            .streamError,
            "stream error \(error.summary): \(fix)",
            condition: error.condition.rawValue
        )
        failure.otherHost = error.otherHost
        return failure
    }

    static var unidentifiedStream: NegotiationError {
        NegotiationError(.badStream, "the server's stream has no id, which the handshake of a component needs")
    }

    /// The meaning of a stream error while a component is negotiated.
    static func component(_ error: StreamError, domain: String) -> NegotiationError {
        let fix: String
        var code = Code.streamError
        switch error.condition {
        case .notAuthorized:
            code = .authenticationRefused
            fix =
                "the server refuses the component's secret: `secret_file` must hold the one of the server's configuration "
                + "(Prosody: `component_secret`; ejabberd: the `password` of this domain in the `hosts` of its "
                + "ejabberd_service listener, which must list the domain)"
        case .hostUnknown, .hostGone, .improperAddressing:
            fix =
                "the server knows no component \(domain): set `domain` to the name of one, spelled as in the server's "
                + "configuration (Prosody: `Component \"\(domain)\"`)"
        case .conflict:
            fix =
                "another connection serves this component: a second worker, or one whose connection the server still takes "
                + "for alive (Prosody serves one connection, and `component_conflict_resolve` says which; ejabberd: the "
                + "domain is one of the server's own hosts)"
        case .invalidNamespace:
            fix = "this port is not for components: set `port` to that of the server's component listener"
        default: return .stream(error)
        }
        return NegotiationError(
            code,
            "stream error \(error.summary): \(fix)",
            condition: error.condition.rawValue
        )
    }

    static func refusal(_ refusal: SASLPolicy.Refusal, _ offer: SASLOffer, _ policy: SASLPolicy) -> NegotiationError {
        let names = PeerText.mechanisms(offer.mechanisms)
        let offered = names.isEmpty ? "none" : names
        let types = ChannelBinding.Kind.allCases.map(\.rawValue).filter { offer.bindings?.contains($0) ?? false }
        let message =
            switch refusal {
            case .nothingUsable where !policy.hasSecret:
                "the server does not offer SASL EXTERNAL (offered: \(offered)), and there is no `secret_file`: have the "
                    + "server ask for client certificates and trust the authority of ours, or give it the secret"
            case .nothingUsable where offer.mechanisms.contains("PLAIN"):
                "the server offers no SASL mechanism we may use (offered: \(offered); ours: "
                    + "\(policy.names.joined(separator: ", "))): PLAIN would give it the secret itself. Enable SCRAM on the "
                    + "server; if it can't have SCRAM, set `allow_plain: true` for this sender. If it did offer SCRAM "
                    + "before, somebody on the network path may have shortened its list"
            case .nothingUsable:
                "the server offers no SASL mechanism we may use (offered: \(offered); ours: "
                    + "\(policy.names.joined(separator: ", "))): allow one of ours for connections with TLS"
            case .unknownBindings:
                "the server offers channel binding (\(offered)), but by no type that this TLS connection has "
                    + "(\(policy.bindings.map(\.kind.rawValue).joined(separator: ", "))): enable tls-exporter or "
                    + "tls-server-end-point on the server; if it has them, somebody on the network path has changed its list"
            case .unlistedBindings:
                "the server offers channel binding (\(offered)) without the list of its types that belongs to SASL2 "
                    + "(XEP-0440): if it has one, somebody on the network path has taken it away"
            case .bindingWithoutMechanism:
                "the server lists channel bindings (\(types.isEmpty ? "of unknown types" : types.joined(separator: ", "))) "
                    + "but no SASL mechanism that takes one (offered: \(offered)): enable SCRAM's -PLUS mechanisms on the "
                    + "server; if they are enabled, somebody on the network path has shortened its list"
            case .bindingRequired where !policy.requiresBinding:
                "the server offers no sign-in that is bound to this TLS connection (offered: \(offered)), and this sender has "
                    + "signed in that way before (pinned): somebody on the network path may have shortened its list. If the server "
                    + "has changed, now speaks TLS 1.3 or is behind a proxy that ends TLS: `upstream-worker check --forget-pin`"
            case .bindingRequired:
                "the server offers no sign-in that is bound to this TLS connection (offered: \(offered)), which "
                    + "`channel_binding: required` asks for: enable SCRAM's -PLUS mechanisms on the server, or set "
                    + "`channel_binding: preferred`; if they are enabled, somebody on the network path has shortened its list"
            }
        return NegotiationError(.noMechanism, message)
    }

    /// The meaning of a mechanism's SASL failure (RFC 6120 section 6.5).
    static func sasl(_ condition: SASLFailureCondition, _ choice: SASLChoice? = nil) -> NegotiationError {
        let fix =
            switch condition {
            case .notAuthorized where choice == .external, .invalidAuthzid where choice == .external:
                "the server does not take our client certificate for this account: its authority must be one that the server "
                    + "trusts for clients, and it must name the account's address as XmppAddr"
            case .notAuthorized:
                "the server refuses the sender id and secret: check `sender_id`, `username` and the file of `secret_file`"
            case .malformedRequest, .invalidAuthzid, .incorrectEncoding:
                "the server refuses the form of the user name: try the other value of `username` (jid or localpart)"
            case .accountDisabled: "the server has disabled this account"
            case .credentialsExpired: "the secret has expired: put the new one into the file of `secret_file`"
            case .encryptionRequired, .mechanismTooWeak, .invalidMechanism:
                "the server offered this SASL mechanism and does not accept it: see its list of mechanisms"
            case .temporaryAuthFailure: "the server can't authenticate anybody at the moment"
            case .aborted, .undefinedCondition: "see the server's log"
            }
        return NegotiationError(
            condition == .temporaryAuthFailure ? .authenticationUnavailable : .authenticationRefused,
            "SASL failure \(condition.rawValue): \(fix)\(NegotiationError.suspicion(condition, choice))",
            condition: condition.rawValue
        )
    }

    /// The hint for a refusal that channel binding may explain: servers do not give it as the reason.
    private static func suspicion(_ condition: SASLFailureCondition, _ choice: SASLChoice?) -> String {
        switch (condition, choice) {
        case (.notAuthorized, .scram(_, .bound(let binding))), (.malformedRequest, .scram(_, .bound(let binding))):
            "; if they are right, somebody on the network path may end the TLS connection in the server's place: the proof "
                + "was bound to it (\(binding.kind.rawValue))"
        case (.notAuthorized, .scram(_, .notOffered)), (.malformedRequest, .scram(_, .notOffered)):
            "; if they are right, the server may support channel binding, and somebody on the network path may have taken "
                + "the -PLUS mechanisms off its list"
        default: ""
        }
    }
}

/// The defined conditions of SASL failures (RFC 6120 section 6.5).
enum SASLFailureCondition: String, CaseIterable {
    case aborted
    case accountDisabled = "account-disabled"
    case credentialsExpired = "credentials-expired"
    case encryptionRequired = "encryption-required"
    case incorrectEncoding = "incorrect-encoding"
    case invalidAuthzid = "invalid-authzid"
    case invalidMechanism = "invalid-mechanism"
    case malformedRequest = "malformed-request"
    case mechanismTooWeak = "mechanism-too-weak"
    case notAuthorized = "not-authorized"
    case temporaryAuthFailure = "temporary-auth-failure"
    case undefinedCondition = "undefined-condition"
}
