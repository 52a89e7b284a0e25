package import ConfigurationKeys
package import XMPP

/// A sender: an account at a CCS-compatible server, and its connections.
package struct SenderConfiguration: Sendable, Equatable {
    package enum TLSMode: String, CaseIterable, Sendable {
        /// With the first byte.
        case direct
        /// Within the stream, by XMPP's STARTTLS; never without.
        case starttls
        /// No TLS: for components on this machine, or in networks that the operator lists.
        case none
    }

    package enum Dialect: String, CaseIterable, Sendable {
        /// The Cloud Connection Server.
        case ccs
        /// A standard server: presence, stream management, acks with a `to`.
        case xmpp
        /// A standard server, as an external component (XEP-0114) instead of an account.
        case component
    }

    /// The user name for SASL.
    package enum Username: String, CaseIterable, Sendable {
        /// `sender_id@domain`.
        case jid
        /// `sender_id`.
        case localpart
    }

    /// The scope in which a message id is unique.
    package enum IDScope: String, CaseIterable, Sendable {
        /// The sender: the protocol's rule.
        case sender
        /// The device, for apps whose ids repeat across devices.
        case device
    }

    package struct ClientCertificate: Sendable, Equatable {
        /// The certificate and its intermediates, PEM.
        package var file: String
        /// Its private key's file, PEM.
        package var keyFile: SecretFile
    }

    /// The account's id, also the metrics' label `sender`.
    package var senderID: String
    /// The host to connect to: a name in ASCII or an IP address; the domain if the host is looked up.
    package var host: String
    /// The TCP port; unused if the host is looked up.
    package var port: Int
    /// The XMPP domain as in addresses.
    package var domain: String
    /// Whether no host is given, so that the domain's service records say where to connect to.
    package var isFound: Bool
    package var connections: Int
    /// The server key's file; an empty path if there is none, beside a client certificate.
    package var secretFile: SecretFile
    package var tlsMode: TLSMode
    /// The networks, as CIDR, besides this machine, in which a component may connect without TLS.
    package var clearNetworks: [String]
    /// Whether the operator set ``tlsMode``, which restricts what service records may say.
    package var isTLSModeGiven: Bool
    /// The certificates to trust, PEM; nil for the system's trust store.
    package var caFile: String?
    /// The certificate presented to a server that asks for one; nil for none.
    package var clientCertificate: ClientCertificate?
    /// The name or IP address that the certificate must be for.
    package var serverName: String
    /// What the peer speaks.
    package var dialect: Dialect
    package var username: Username
    /// Whether SASL may send the secret itself (PLAIN).
    package var allowPlain: Bool
    /// The most unacked messages that the peer allows on one connection.
    package var window: Int
    package var idScope: IDScope
    /// The form of messages and acks.
    package var payload: Payload
    /// Addresses accepted as the server in a stanza's `from`, besides the usual ones.
    package var trustedFrom: [String]
    /// The pause between the answer to a ping and the next ping.
    package var keepaliveInterval: Duration
    /// How long an answer, or a write, may take before the stream counts as dead.
    package var keepaliveTimeout: Duration
    /// How its streams present themselves.
    package var stream: StreamConfiguration

    init(_ scope: ConfigurationScope) {
        dialect = scope.value("dialect", .word(Dialect.ccs), default: "ccs", "What the peer speaks beyond XMPP.")
        senderID = scope.required(
            "sender_id",
            dialect == .xmpp ? .localpart : .senderID,
            "The account's id, in quotes: YAML reads bare digits as a number. For xmpp any local part of an address."
        )
        let place = Self.place(scope, dialect)
        (host, port, domain, isFound) = (place.host, place.port, place.domain, place.isFound)
        let connections: Int? = scope.optional(
            "connections",
            .number(1...1000),
            "`2` for ccs, else `1`",
            "Streams kept open at the same time; a standard server sends each stream of an account a copy of every message."
        )
        let secret = scope.optionalSecretFile(
            "secret_file",
            "required, unless a client certificate is given",
            "File with the server key, password or component secret, or the name of a systemd credential."
        )
        let tls = Self.tls(scope.section("tls"))
        (tlsMode, clearNetworks) = (tls.mode ?? .direct, tls.clearNetworks)
        isTLSModeGiven = tls.mode != nil
        clientCertificate = tls.clientCertificate
        caFile = tls.caFile
        if scope.isMissing("secret_file"), !tls.namesCertificate || dialect == .component {
            scope.problem("secret_file", "is required")
        }
        secretFile = secret ?? SecretFile(path: "")
        // RFC 6120 section 13.7.2.1: a standard server's certificate is for the domain, whatever host it runs on. The
        // CCS's is for its host.
        serverName = tls.serverName ?? (dialect == .xmpp ? InternationalDomain.ascii(domain) ?? domain : host)
        self.connections = connections ?? (dialect == .ccs ? 2 : 1)
        if dialect == .xmpp, self.connections > 1 {
            scope.warning(
                "connections",
                "a standard server sends each connection of an account a copy of every message, and returns the messages that "
                    + "a lost connection has not acknowledged to their senders: use 1"
            )
        }
        username =
            scope.optional(
                "username",
                .word(Username.jid),
                "`jid` for ccs, `localpart` for xmpp, none for component",
                "SASL user name."
            ) ?? (dialect == .ccs ? .jid : .localpart)
        allowPlain =
            scope.optional(
                "allow_plain",
                .flag,
                "`true` for ccs, else `false`",
                "Whether the secret itself may be sent (SASL PLAIN, inside TLS)."
            ) ?? (dialect == .ccs)
        window = scope.value(
            "window",
            .number(1...10_000),
            default: "100",
            "Unacked messages the peer allows; reading pauses a little above it."
        )
        idScope = scope.value(
            "id_scope",
            .word(IDScope.sender),
            default: "sender",
            "Scope in which a message id is unique; `device` for apps whose ids repeat across devices."
        )
        payload = Self.payload(scope, dialect, idScope)
        let trusted = scope.list(
            "trusted_from",
            of: .address,
            "`devices@gcm.googleapis.com` for ccs, none for xmpp; for component the domain above its own and all accounts there",
            "Senders whose stanzas are accepted: addresses, domains, or `*@domain` for all accounts of a domain."
        )
        trustedFrom = trusted ?? Self.trusted(by: dialect, domain)
        (keepaliveInterval, keepaliveTimeout) = Self.keepalive(scope.section("keepalive"))
        stream = StreamConfiguration(scope, isStandard: dialect == .xmpp)
        checkComponent(scope)
    }

    /// The server's place: a host and its port, or the domain alone, whose service records name it.
    private static func place(
        _ scope: ConfigurationScope,
        _ dialect: Dialect
    ) -> (host: String, port: Int, domain: String, isFound: Bool) {
        let given = scope.optional(
            "host",
            .host,
            "required; for xmpp found by the domain's service records",
            "Where to connect to: a name or an IP address."
        )
        let port: Int? = scope.optional(
            "port",
            .number(1...65_535),
            "`5235`; `5347` for component",
            "TCP port of `host`."
        )
        let domain = scope.optional(
            "domain",
            .domain,
            "the host; required for component",
            "XMPP domain; for a component its own, such as upstream.example.com."
        )
        if given != nil || !scope.isMissing("host") {
            let standard = dialect == .component ? 5347 : 5235
            let name = dialect == .component ? component(domain ?? "") : domain ?? given ?? ""
            return (given ?? "", port ?? standard, name, false)
        }
        if dialect != .xmpp {
            scope.problem("host", "is required")
        } else if domain == nil, scope.isMissing("domain") {
            scope.problem("domain", "is required where no host is given")
        } else if !scope.isMissing("port") {
            scope.problem("port", "is that of a host: give one, or leave the port to the domain's service records")
        }
        let name = domain ?? ""
        return (InternationalDomain.ascii(name) ?? name, 5222, name, dialect == .xmpp)
    }

    private struct TLS {
        var mode: TLSMode?
        var caFile: String?
        var serverName: String?
        var clearNetworks: [String]
        var clientCertificate: ClientCertificate?
        /// Whether a client certificate is configured, even an unusable one.
        var namesCertificate = false
    }

    private static func tls(_ scope: ConfigurationScope) -> TLS {
        var keys = TLS(
            mode: scope.optional(
                "mode",
                .word(TLSMode.direct),
                "`direct`; without a host both, as the domain offers them",
                "How TLS begins; `none` for a component whose server is on this machine or in `allow_clear_networks`."
            ),
            caFile: scope.optional("ca_file", .file, "the system's trust store", "Certificates to trust, PEM."),
            serverName: scope.optional(
                "server_name",
                .host,
                "the host; the domain for xmpp",
                "Name or IP address the certificate must be for, also sent as SNI."
            ),
            clearNetworks: scope.list(
                "allow_clear_networks",
                of: .network,
                "none",
                "Where `mode: none` may connect to beside this machine: networks in which nobody else can read or write."
            ) ?? []
        )
        let certificate = scope.optional(
            "client_certificate_file",
            .file,
            "none",
            "Certificate to sign in with (SASL EXTERNAL), followed by its intermediates, PEM."
        )
        let key = scope.optionalSecretFile("client_key_file", "none", "Its private key, PEM, without a passphrase.")
        if let certificate, let key {
            keys.clientCertificate = ClientCertificate(file: certificate, keyFile: key)
        }
        keys.namesCertificate = !scope.isMissing("client_certificate_file") || !scope.isMissing("client_key_file")
        for (name, other) in [
            ("client_certificate_file", "client_key_file"), ("client_key_file", "client_certificate_file"),
        ] where scope.isMissing(name) && !scope.isMissing(other) {
            scope.problem(other, "needs \(name) beside it")
        }
        return keys
    }

    private static func keepalive(_ scope: ConfigurationScope) -> (interval: Duration, timeout: Duration) {
        (
            scope.value(
                "interval",
                .duration("1s", "1h"),
                default: "30s",
                "Time from a ping's answer to the next ping (XEP-0199), also on a busy stream."
            ),
            scope.value(
                "timeout",
                .duration("1s", "10m"),
                default: "15s",
                "How long the answer to a ping, or a write, may take before the stream is closed and opened again."
            )
        )
    }
}
