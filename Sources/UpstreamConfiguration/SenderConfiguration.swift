package import ConfigurationKeys
package import XMPP

/// A sender: an account at a CCS-compatible server, and its connections.
package struct SenderConfiguration: Sendable, Equatable {
    package enum Username: String, CaseIterable, Sendable {
        /// `sender_id@domain`.
        case jid
        /// `sender_id`.
        case localpart
    }

    package struct ClientCertificate: Sendable, Equatable {
        package var file: String
        package var keyFile: SecretFile
    }

    /// What its streams need, with the domain and the trusted addresses as they are written.
    package var stream: StreamSettings
    /// The host to connect to: a name in ASCII or an IP address; the domain if the host is looked up.
    package var host = ""
    /// The TCP port; unused if the host is looked up.
    package var port = 5222
    /// Whether no host is given, so that the domain's service records say where to connect to.
    package var isFound = false
    package var connections = 1
    /// The server key's file; an empty path if there is none, beside a client certificate.
    package var secretFile = SecretFile(path: "")
    package var tlsMode = TLSMode.direct
    /// The networks, as CIDR, besides this machine, in which a component may connect without TLS.
    package var clearNetworks: [String] = []
    /// Whether the operator set ``tlsMode``, which restricts what service records may say.
    package var isTLSModeGiven = false
    package var caFile: String?
    /// The certificate presented to a server that asks for one; nil for none.
    package var clientCertificate: ClientCertificate?
    package var serverName = ""
    package var username = Username.jid
    package enum CatchUp: String, CaseIterable, Sendable {
        case on, off
    }

    /// Whether the server's archive is read for what has not come (XEP-0313).
    package var catchUp = CatchUp.off

    package var dialect: Dialect { stream.dialect }
    /// The account's id, also the metrics' label `sender`.
    package var senderID: String { stream.senderID }
    package var domain: String { stream.domain }

    /// The resource of a worker whose configuration names none.
    ///
    /// The same after every restart and on every machine: whoever binds it ends the session that held it before, and
    /// gets what that session left unacknowledged (docs/adr/0005).
    private static let defaultResource = "upstream-worker"

    init(_ scope: ConfigurationScope) {
        let dialect = scope.value("dialect", .word(Dialect.ccs), default: "ccs").means(
            "What the peer speaks beyond XMPP."
        )
        let senderID = scope.required("sender_id", dialect == .xmpp ? .localpart : .senderID)
            .means(
                "The account's id, in quotes: YAML reads bare digits as a number. For xmpp any local part of an address."
            )
        stream = StreamSettings(senderID: senderID, domain: "", dialect: dialect)
        readPlace(scope)
        let most: Int? = scope.optional("connections", .number(1...1000), "`2` for ccs, else `1`")
            .means(
                "Streams kept open at the same time; a standard server sends each stream of an account a copy of every message."
            )
        connections = most ?? (dialect == .ccs ? 2 : 1)
        let secret = scope.optionalSecretFile("secret_file", "required, unless a client certificate is given")
            .means("File with the server key, password or component secret, or the name of a systemd credential.")
        if let secret { secretFile = secret }
        readTLS(scope.section("tls"))
        let namesCertificate = ["tls.client_certificate_file", "tls.client_key_file"].contains { !scope.isMissing($0) }
        if scope.isMissing("secret_file"), !namesCertificate || dialect == .component {
            scope.problem("secret_file", "is required")
        }
        if dialect == .xmpp, connections > 1 {
            scope.warning(
                "connections",
                "a standard server sends each connection of an account a copy of every message, and returns the messages that "
                    + "a lost connection has not acknowledged to their senders: use 1"
            )
        }
        let name = scope.optional(
            "username",
            .word(Username.jid),
            "`jid` for ccs, `localpart` for xmpp, none for component"
        )
        .means("SASL user name.")
        username = name ?? (dialect == .ccs ? .jid : .localpart)
        let plain = scope.optional("allow_plain", .flag, "`true` for ccs, else `false`")
            .means("Whether the secret itself may be sent (SASL PLAIN, inside TLS).")
        stream.allowsPlain = plain ?? (dialect == .ccs)
        stream.channelBinding = scope.value(
            "channel_binding",
            .word(ChannelBindingRule.preferred),
            default: "preferred"
        )
        .means(
            "`required`: sign in only by a proof that is valid for this TLS connection alone (SCRAM-…-PLUS); `preferred`: only once "
                + "that has succeeded."
        )
        if dialect == .ccs, stream.channelBinding == .required {
            scope.problem("channel_binding", "must not be 'required' with 'dialect: ccs', which signs in by PLAIN")
        }
        if plain == true, stream.channelBinding == .required {
            scope.problem("allow_plain", "must not be true with 'channel_binding: required': PLAIN is bound to nothing")
        }
        stream.window = scope.value("window", .number(1...10_000), default: "100")
            .means("Unacked messages the peer allows; reading pauses a little above it.")
        stream.serverQueue = scope.value("server_queue", .number(10...10_000_000), default: "500")
            .means(
                "Unacknowledged stanzas that a standard server keeps (Prosody's `smacks_max_queue_size`, ejabberd's "
                    + "`max_ack_queue`): presence is withdrawn before a paused stream fills it, and `window` is at most half of it."
            )
        stream.idScope = scope.value("id_scope", .word(IDScope.sender), default: "sender")
            .means("Scope in which a message id is unique; `device` for apps whose ids repeat across devices.")
        stream.payload = Self.payload(scope, dialect, stream.idScope)
        let trusted = scope.list(
            "trusted_from",
            of: .address,
            "`devices@gcm.googleapis.com` for ccs, none for xmpp; for component the domain above its own and all accounts there"
        )
        .means("Senders whose stanzas are accepted: addresses, domains, or `*@domain` for all accounts of a domain.")
        stream.trustedFrom = trusted ?? Self.trusted(by: dialect, domain)
        readKeepalive(scope.section("keepalive"))
        readStream(scope)
        catchUp = scope.section("archive").value("catch_up", .word(CatchUp.off), default: "off")
            .means(
                "`on`: fetch what did not come from a standard server's archive (XEP-0313), after a bind and hourly."
            )
        if dialect != .xmpp, catchUp == .on {
            scope.problem(
                "archive.catch_up",
                "must not be 'on' with 'dialect: \(dialect.rawValue)', which has no archive"
            )
        }
        if catchUp == .on, case .plain(let plain) = stream.payload, plain.messageID == .serverID {
            scope.problem(
                "archive.catch_up",
                "must not be 'on' with 'fallback.message_id: server_id': Prosody's archive has messages without it"
            )
        }
        checkComponent(scope)
    }

    /// Reads the server's place: a host and its port, or the domain alone, whose service records name it.
    private mutating func readPlace(_ scope: ConfigurationScope) {
        let host = scope.optional("host", .host, "required; for xmpp found by the domain's service records")
            .means("Where to connect to: a name or an IP address.")
        let port: Int? = scope.optional("port", .number(1...65_535), "`5235`; `5347` for component")
            .means("TCP port of `host`.")
        let domain = scope.optional("domain", .domain, "the host; required for component")
            .means("XMPP domain; for a component its own, such as upstream.example.com.")
        if host != nil || !scope.isMissing("host") {
            self.host = host ?? ""
            self.port = port ?? (dialect == .component ? 5347 : 5235)
            stream.domain = dialect == .component ? Self.component(domain ?? "") : domain ?? self.host
            return
        }
        if dialect != .xmpp {
            scope.problem("host", "is required")
        } else if domain == nil, scope.isMissing("domain") {
            scope.problem("domain", "is required where no host is given")
        } else if !scope.isMissing("port") {
            scope.problem("port", "is that of a host: give one, or leave the port to the domain's service records")
        }
        stream.domain = domain ?? ""
        self.host = domainInASCII
        isFound = dialect == .xmpp
    }

    private mutating func readTLS(_ scope: ConfigurationScope) {
        let note = "`direct`; without a host both, as the domain offers them"
        let mode = scope.optional("mode", .word(TLSMode.direct), note)
            .means(
                "How TLS begins; `none` for a component whose server is on this machine or in `allow_clear_networks`."
            )
        (tlsMode, isTLSModeGiven) = (mode ?? .direct, mode != nil)
        caFile = scope.optional("ca_file", .file, "the system's trust store").means("Certificates to trust, PEM.")
        let name = scope.optional("server_name", .host, "the host; the domain for xmpp")
            .means("Name or IP address the certificate must be for, also sent as SNI.")
        // RFC 6120 section 13.7.2.1: a standard server's certificate is for the domain, a CCS's for its host.
        serverName = name ?? (dialect == .xmpp ? domainInASCII : host)
        clearNetworks = scope.values("allow_clear_networks", of: .network, "none")
            .means(
                "Where `mode: none` may connect to beside this machine: networks in which nobody else can read or write."
            )
        let certificate = scope.optional("client_certificate_file", .file, "none")
            .means("Certificate to sign in with (SASL EXTERNAL), followed by its intermediates, PEM.")
        let key = scope.optionalSecretFile("client_key_file", "none")
            .means("Its private key, PEM, without a passphrase.")
        if let certificate, let key { clientCertificate = ClientCertificate(file: certificate, keyFile: key) }
        for (name, other) in [
            ("client_certificate_file", "client_key_file"), ("client_key_file", "client_certificate_file"),
        ] where scope.isMissing(name) && !scope.isMissing(other) {
            scope.problem(other, "needs \(name) beside it")
        }
    }

    private mutating func readKeepalive(_ scope: ConfigurationScope) {
        stream.keepaliveInterval = scope.value("interval", .duration("1s", "1h"), default: "30s")
            .means("Time from a ping's answer to the next ping (XEP-0199), also on a busy stream.")
        stream.keepaliveTimeout = scope.value("timeout", .duration("1s", "10m"), default: "15s")
            .means(
                "How long the answer to a ping, or a write, may take while nothing that we wrote before moves; then the stream is "
                    + "closed and opened again."
            )
    }

    /// Reads how streams present themselves; a CCS, unlike a standard server, chooses the resource itself.
    private mutating func readStream(_ scope: ConfigurationScope) {
        let text = ConfigurationType.text("text", "at most 255 bytes, without a space at either end") { text in
            text.utf8.count <= 255 && !text.hasPrefix(" ") && !text.hasSuffix(" ")
        }
        let given = scope.optional("resource", text, "`upstream-worker` for xmpp, the server's choice for ccs")
            .means("Resource to bind; the same after a restart, so that the worker gets what its last session left.")
        stream.resource = given ?? (dialect == .xmpp ? Self.defaultResource : nil)
        let priority = scope.value("priority", .number(0...127), default: "127")
            .means(
                "Priority of the presence at a standard server, which sends messages to the highest of an account's."
            )
        stream.priority = Int8(clamping: priority)
        stream.resume = scope.value("resume", .duration("0s", "10m"), default: "0s")
            .means(
                "How long a standard server is asked to hold a lost connection's session for resumption (XEP-0198); `0s`: off."
            )
        // Strict enough to catch a URL or an address with an @.
        let host = ConfigurationType.text("host", "a host name or an IP address, with or without a port") { text in
            text.utf8.count <= 255 && !text.hasPrefix(".") && text.isAlphanumeric(or: "-._:[]")
        }
        stream.redirectHosts = scope.values("redirect_hosts", of: host, "none")
            .means(
                "Hosts that the server may send us to (`see-other-host`), `name` or `name:port`; no other is followed."
            )
    }
}
