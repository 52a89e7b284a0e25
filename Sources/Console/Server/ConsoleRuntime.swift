import ConfigurationKeys
package import Logging
import MessageStore
import Postgres
import ServiceLifecycle
import Telemetry
package import UpstreamConfiguration

/// The configured console: its database sessions, access rules and server.
package struct ConsoleRuntime: Sendable {
    /// The principal of everybody on this machine where no token and no proxy is configured: a viewer.
    private static let anybody = Principal(name: "local", role: .viewer)
    /// How long a sign-in link is valid.
    private static let linkLifetime = Duration.seconds(600)

    private let access: ConsoleAccess
    private let services: ConsoleServices
    private let group: ServiceGroup
    private let scheme: String
    private let host: String

    /// Makes a console without connecting; `onListening` receives the port.
    ///
    /// - Throws: ``ConsoleError`` if something that the configuration names can't be used.
    package init(
        _ configuration: WorkerConfiguration,
        version: String,
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws(ConsoleError) {
        guard let console = configuration.console, case .tcp(let host, _) = console.listen else {
            throw ConsoleError("console.listen is off: set it to an address such as 127.0.0.1:9465")
        }
        self.host = host.contains(":") ? "[\(host)]" : host
        scheme = console.tls == nil ? "http" : "https"
        services = try Self.services(configuration, console, version: version, logger)
        do {
            access = try ConsoleAccess(Self.rules(console), logger: logger)
        } catch let error as ConsoleError {
            throw error
        } catch {
            throw ConsoleError("console.tokens: a token cannot be read: \(error)")
        }
        let server = try ConsoleServer(
            console.listen,
            services: services,
            access: access,
            certificate: console.tls,
            onListening: onListening
        )
        let parts: [any Service] = [SchemaCheck(pool: services.probe, logger: logger)] + (server.map { [$0] } ?? [])
        group = ServiceGroup(services: parts, logger: logger.forLibrary)
    }

    /// Serves until ``shutDown()``.
    ///
    /// - Throws: ``ConsoleError``: the port is taken, or the schema is not this program's.
    package func run() async throws {
        do {
            try await group.run()
        } catch {
            await services.close()
            throw error
        }
        await services.close()
    }

    /// Ends ``run()``; answers under way have two seconds.
    package func shutDown() async { await group.triggerGracefulShutdown() }

    package func address(port: Int) -> String { "\(scheme)://\(host):\(port)/" }

    /// An address that signs in `principal` once within ten minutes; a secret until then.
    package func oneTimeAddress(port: Int, for principal: Principal) -> String {
        address(port: port) + access.oneTimePath(for: principal, lifetime: Self.linkLifetime).dropFirst()
    }

    /// Whether everybody on this machine is let in.
    package var isOpen: Bool { access.settings.anybody != nil }

    private static func services(
        _ configuration: WorkerConfiguration,
        _ console: ConsoleConfiguration,
        version: String,
        _ logger: Logger
    ) throws(ConsoleError) -> ConsoleServices {
        var reading: PostgresSettings
        do throws(PostgresError) {
            reading = try PostgresSettings(
                url: console.database.url ?? configuration.database.url,
                of: console.database.url == nil ? "database.url" : "console.database.url"
            )
        } catch {
            throw ConsoleError("\(error)")
        }
        var standby: PostgresSettings?
        do throws(PostgresError) {
            standby = try configuration.database.readURL.map(PostgresSettings.reader(url:))
        } catch {
            throw ConsoleError("\(error)")
        }
        reading.applicationName = "upstream-console"
        var writing = reading
        let limit = console.database.statementTimeout.components
        reading.statementTimeout = Int(limit.seconds) * 1_000 + Int(limit.attoseconds / 1_000_000_000_000_000)
        reading.lockTimeout = min(reading.statementTimeout, 2_000)
        writing.lockTimeout = 5_000
        standby?.applicationName = reading.applicationName
        standby?.statementTimeout = reading.statementTimeout
        standby?.lockTimeout = reading.lockTimeout
        var settings = ConsoleSettings(version: version)
        settings.showsPayloads = console.payloads == .shown
        (settings.name, settings.colour) = (console.name, console.colour)
        return ConsoleServices(
            reading: reading,
            standby: standby,
            sessions: console.database.sessions,
            writing: writing,
            settings: settings,
            logger: logger
        )
    }

    private static func rules(_ console: ConsoleConfiguration) -> ConsoleAccess.Settings {
        var rules = ConsoleAccess.Settings()
        rules.tokens = console.tokens.map { token in
            ConsoleToken(Principal(name: token.name, role: token.role, reveals: token.reveals)) {
                try token.file.lines().filter { $0.count >= ConsoleConfiguration.shortestToken }
            }
        }
        rules.proxy = console.proxy.map { proxy in
            let users = proxy.users.map { user in
                (key: user.name, value: Principal(name: user.name, role: user.role, reveals: user.reveals))
            }
            return TrustedProxy(networks: proxy.networks, header: .named(proxy.header), users: users)
        }
        // Without either it listens on loopback only: other configurations are refused.
        if console.tokens.isEmpty, console.proxy == nil { rules.anybody = anybody }
        rules.hosts = AllowedHosts(console.hosts, isOnLoopback: console.isOnLoopback)
        rules.isTLS = console.tls != nil
        rules.sessionLifetime = console.sessionLifetime
        return rules
    }
}

/// Reports a missing database or schema, and ends the console over a schema that no migration can fix.
///
/// Runs until the schema fits; until then `/readyz` answers 503.
struct SchemaCheck: Service {
    let pool: ReadPool
    let logger: Logger

    func run() async throws {
        try await cancelWhenGracefulShutdown {
            var isFirst = true
            var told: ContinuousClock.Instant?
            while !Task.isCancelled {
                do {
                    let health = try await pool.withConnection { try await StoreHealth.check($0) }
                    guard case .schema(let state) = health else {
                        if told != nil {
                            logger.event(.info, .schemaFits, "the schema is this binary's: going on")
                        }
                        return
                    }
                    let problem = state.problem ?? "the schema is not this program's"
                    guard state.isAwaited else {
                        throw ConsoleError(problem + "; `upstream-worker migrate status` shows more")
                    }
                    if told.map({ ContinuousClock.now - $0 >= .seconds(60) }) ?? true {
                        told = .now
                        warn(.schemaDiffers, "the schema is not this binary's: waiting until it is", problem)
                    }
                } catch let error as ConsoleError {
                    throw error
                } catch {
                    if isFirst, !Task.isCancelled {
                        warn(.databaseUnavailable, "database not ready; retrying", "\(error)")
                    }
                    isFirst = false
                }
                try? await Task.sleep(for: .seconds(1))
            }
        }
        // A service that ends while another shuts down counts as a failure.
        try? await gracefulShutdown()
    }

    private func warn(_ event: EventName, _ message: StaticString, _ why: String) {
        logger.event(.warning, event, message, [.error: .string(why)])
    }
}
