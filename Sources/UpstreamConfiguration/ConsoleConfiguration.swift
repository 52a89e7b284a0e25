package import ConfigurationKeys
package import Vocabulary

/// The console: its address, access rules, and use of the database.
package struct ConsoleConfiguration: Sendable, Equatable {
    package enum Payloads: String, CaseIterable, Sendable {
        case shown
        /// Only metadata: keys, categories, times, sizes.
        case hidden
    }

    /// A role with its rights.
    package enum Role: String, CaseIterable, Sendable {
        /// Sees messages as configured: tokens masked, payloads shown or not.
        case viewer
        /// Sees that and the audit trail, and acts.
        case operator_ = "operator"
        /// Sees that and the audit trail, and does not act.
        case auditor
    }

    package struct Database: Sendable, Equatable {
        /// A separate connection string; nil for `database.url`.
        package var url: String?
        package var sessions: Int
        package var statementTimeout: Duration
    }

    /// The colours that tell environments apart.
    package enum Colour: String, CaseIterable, Sendable { case blue, green, orange, red, purple, grey }

    package var listen: ListenAddress
    /// The environment's name, which pages show; nil for none.
    package var name: String?
    /// The environment's colour; nil for the usual look.
    package var colour: Colour?
    /// The host names that requests may be addressed to, besides loopback's; empty: any, but on loopback none.
    package var hosts: [String]
    package var tokens: [ConsoleTokenConfiguration]
    /// The proxy that authenticates requests; nil for none.
    package var proxy: ConsoleProxyConfiguration?
    /// The server's certificate; nil for plain HTTP.
    package var tls: ConsoleTLSConfiguration?
    package var payloads: Payloads
    package var sessionLifetime: Duration
    package var database: Database

    /// The shortest token: 32 characters hold 128 bits even if each is a hexadecimal digit.
    package static let shortestToken = 32

    init(_ scope: ConfigurationScope) {
        listen = scope.value("listen", .listen, default: "127.0.0.1:9465")
            .means("The console's page and API; another address than loopback's needs `tokens` or `proxy`.")
        hosts = scope.values("hosts", of: .hostName, "loopback's on loopback, else any")
            .means("Names that requests may be addressed to (`Host`), besides loopback's.")
        name = scope.optional("name", .shortName, "none")
            .means("The environment's name, such as `staging`, in the head, title and icon of every page.")
        colour = scope.optional("colour", .word(Colour.blue), "the usual look")
            .means("The environment's colour, in the head and the icon.")
        tokens = scope.sections("tokens").map(ConsoleTokenConfiguration.init)
        let proxyScope = scope.section("proxy")
        proxy = scope.has("proxy") ? ConsoleProxyConfiguration(proxyScope) : nil
        let tlsScope = scope.section("tls")
        tls = scope.has("tls") ? ConsoleTLSConfiguration(tlsScope) : nil
        payloads = scope.value("payloads", .word(Payloads.shown), default: "shown")
            .means("`hidden`: messages are listed without their data.")
        sessionLifetime = scope.value("session_lifetime", .duration("1m", "30d"), default: "12h")
            .means("How long a sign-in lasts; a restart of the console ends all.")
        let databaseScope = scope.section("database")
        database = Database(
            url: DatabaseConfiguration.optionalURL(
                databaseScope,
                "`database.url`",
                "The console's own connection string, for the role `upstream_console`."
            ),
            sessions: databaseScope.value("sessions", .number(1...32), default: "4")
                .means("Database sessions that read."),
            statementTimeout: databaseScope.value("statement_timeout", .duration("100ms", "10m"), default: "10s")
                .means("How long one statement of the console may take.")
        )
        checkAddress(scope)
        checkNames(scope)
    }

    /// Whether only this machine can reach it.
    package var isOnLoopback: Bool {
        guard case .tcp(let host, _) = listen else { return true }
        return host == "localhost" || NetworkAddress(host)?.isLoopback == true
    }

    private func checkAddress(_ scope: ConfigurationScope) {
        let others = hosts.filter { $0.lowercased() != "localhost" && NetworkAddress($0)?.isLoopback != true }
        if let proxy, proxy.users.isEmpty, tokens.isEmpty {
            scope.problem(
                "proxy.roles",
                "must say who may what, such as [{user: \"*\", role: viewer}]; or add console.tokens for people to sign in with"
            )
        }
        if isOnLoopback, !others.isEmpty, tokens.isEmpty, proxy == nil {
            scope.problem(
                "hosts",
                "names another host than this machine, whose clients nobody signs in: add console.tokens or console.proxy"
            )
        }
        guard !isOnLoopback else { return }
        if tokens.isEmpty, proxy == nil {
            scope.problem(
                "listen",
                "lets everybody in who reaches it: add console.tokens or console.proxy, or listen on 127.0.0.1"
            )
        } else if tls == nil, proxy == nil {
            scope.warning("listen", "sends tokens in the clear: add console.tls, or a proxy with TLS in front")
        }
    }

    private func checkNames(_ scope: ConfigurationScope) {
        let names = tokens.map(\.name)
        for name in names.repeated {
            scope.problem("tokens", "holds the name '\(name)' twice: the audit trail could not tell them apart")
        }
        for user in proxy?.users ?? [] where !user.name.isEmpty && names.contains(user.name) {
            scope.problem("proxy.roles", "names '\(user.name)', as a token is named: the audit trail could not tell")
        }
    }
}

package struct ConsoleTokenConfiguration: Sendable, Equatable {
    package var file: SecretFile
    package var role: ConsoleConfiguration.Role
    package var name: String
    package var reveals: Bool

    init(_ scope: ConfigurationScope) {
        file = scope.secretFile("file")
            .means("File with the token, at least 32 characters; two lines during a rotation.")
        role = scope.required("role", .word(ConsoleConfiguration.Role.viewer))
            .means("What it allows: `operator` acts, `auditor` reads the audit trail.")
        let own = scope.optional("name", .shortName, "the file's name").means("What the audit trail calls its holder.")
        name = own ?? String(file.path.split(separator: "/").last ?? "")
        reveals = scope.value("reveal", .flag, default: "false")
            .means("Whether its holder may see registration tokens.")
        let fix = "the audit trail would not say who acts; name the person or the team"
        if ConsoleConfiguration.Role(rawValue: name) != nil {
            scope.warning("name", "is a role's: \(fix)")
        } else if own == nil, role == .operator_ || reveals, !name.isEmpty {
            scope.warning("name", "is not set, so that it is the file's, '\(name)': \(fix)")
        }
        if !file.path.isEmpty, let lines = try? file.lines() { check(lines, scope) }
    }

    private func check(_ tokens: [[UInt8]], _ scope: ConfigurationScope) {
        let shortest = ConsoleConfiguration.shortestToken
        if tokens.isEmpty || tokens.contains(where: { $0.count < shortest }) {
            scope.problem(
                "file",
                "holds a token of fewer than \(shortest) characters: make one with `openssl rand -hex 32`"
            )
        }
        if tokens.contains(where: { $0.contains { $0 <= 0x20 || $0 >= 0x7F } }) {
            scope.problem("file", "holds a token with a space or a character beyond ASCII, which no header can carry")
        }
    }
}

/// A proxy in front of the console, which ends TLS, and may authenticate people.
package struct ConsoleProxyConfiguration: Sendable, Equatable {
    package struct User: Sendable, Equatable {
        /// The name in the header; `*` for everybody else.
        package var name: String
        package var role: ConsoleConfiguration.Role
        package var reveals: Bool
    }

    /// The networks it connects from; the header is ignored from elsewhere.
    package var networks: [Network]
    package var header: String
    /// The users with their roles; others may do nothing, and without users the proxy authenticates nobody.
    package var users: [User]

    init(_ scope: ConfigurationScope) {
        networks = scope.values("networks", of: .network, "required")
            .means("Where the proxy sends from: `X-Forwarded-For` and `-Proto` count from there only.")
            .compactMap(Network.init)
        let name = ConfigurationType.text("header", "the name of a header") { $0.isAlphanumeric(or: "-") }
        header = scope.value("header", name, default: "X-Forwarded-User")
            .means("The header with the user's name; the proxy must replace it in every request.")
        users = scope.sections("roles").map { scope in
            User(
                name: scope.required("user", .text)
                    .means(
                        "A user as the header names them; `*` for everybody else. No entries: the proxy signs nobody in."
                    ),
                role: scope.required("role", .word(ConsoleConfiguration.Role.viewer)).means("What they may do."),
                reveals: scope.value("reveal", .flag, default: "false")
                    .means("Whether they may see registration tokens.")
            )
        }
        let isOfThisMachine = networks.contains { network in
            ["127.0.0.1", "::1"].contains { NetworkAddress($0).map(network.contains) == true }
        }
        if isOfThisMachine, !users.isEmpty {
            scope.warning(
                "networks",
                "holds this machine: each of its accounts and programs can say that it is any user of console.proxy.roles"
            )
        }
        if networks.isEmpty { scope.problem("networks", "must name the proxy's network, such as 10.1.2.3/32") }
        if ["authorization", "cookie", "host", "origin", "content-type"].contains(header.lowercased()) {
            scope.problem("header", "has another meaning: use one such as X-Forwarded-User")
        }
        for name in users.map(\.name).repeated { scope.problem("roles", "names '\(name)' twice") }
    }
}

package struct ConsoleTLSConfiguration: Sendable, Equatable {
    package var certificateFile: String
    package var keyFile: SecretFile

    package init(certificateFile: String, keyFile: SecretFile) {
        (self.certificateFile, self.keyFile) = (certificateFile, keyFile)
    }

    init(_ scope: ConfigurationScope) {
        certificateFile = scope.required("certificate_file", .file).means("The certificate and its chain, PEM.")
        keyFile = scope.secretFile("key_file").means("The certificate's private key, PEM.")
    }
}

extension ConfigurationType where Value == String {
    /// A host name or address without a port.
    fileprivate static var hostName: Self {
        .text("host", "a host name without a port") { text in
            NetworkAddress(text) != nil || text.isAlphanumeric(or: "-._")
        }
    }

    fileprivate static var shortName: Self { .text("text", "at most 64 characters") { $0.count <= 64 } }
}
