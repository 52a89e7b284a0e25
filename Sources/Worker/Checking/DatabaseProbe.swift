import Handlers
package import MessageStore
package import Postgres
package import Probing
import Querying
package import UpstreamConfiguration
import Vocabulary

extension ExitStatus {
    package init(_ error: PostgresError) {
        self =
            switch error.failureClass {
            case _ where error.unusableKey != nil: .configuration
            case .connection, .resources, .intervention, .timeout, .system, .deadline, .cancelled, .local, .closed:
                .unavailable
            // The server lets us in, but has no such database.
            case .authentication where error.sqlState?.hasPrefix("3D") == true: .unavailable
            case .authentication, .permission: .refused
            case .readOnly, .rollback, .lock: .temporaryFailure
            case .schema: .configuration
            case .data, .constraint, .limit, .missingPartition, .other: .internalError
            }
    }

    package init(_ error: MigrationError) {
        switch error {
        case .database(let error, _): self.init(error)
        case .schema: self = .configuration
        }
    }
}

extension ProbeSequence {
    /// The steps about the database: all that `run` does there, tried with its role and rolled back.
    static func database(_ session: DatabaseSession) -> ProbeSequence {
        ProbeSequence(
            "database",
            [
                Probe("connect", isNeeded: true) { await session.connect() },
                Probe("server") { await session.server() },
                Probe("clock") { await session.clock() },
                Probe("connections") { await session.connections() },
                Probe("what an ack is worth") { await session.ackWorth() },
                Probe("disk") { await session.disk() },
                Probe("schema", isNeeded: true) { await session.schema() },
                Probe("rights", isNeeded: true) { await session.rights() },
                Probe("writes") { await session.writes() },
                Probe("partitions") { await session.partitions() },
            ]
        )
    }
}

/// The connection shared by the steps about the database and about SQL handlers.
actor DatabaseSession: HandlerProbeSession {
    private let configuration: WorkerConfiguration
    private var connection: PostgresConnection?
    private var facts: DatabaseFacts?
    private var isSchemaCurrent = false

    init(_ configuration: WorkerConfiguration) { self.configuration = configuration }

    func connect() async -> Probe.Result {
        do throws(PostgresError) {
            var settings = try PostgresSettings(url: configuration.database.url)
            // As a worker connects.
            settings.isWriter = true
            let connection = try await PostgresConnection.open(settings)
            self.connection = connection
            let facts = try await DatabaseFacts.ask(connection)
            self.facts = facts
            return .passed(detail: "connected to \(settings.description) as the role \(facts.role)")
        } catch {
            return failed(error)
        }
    }

    func server() async -> Probe.Result {
        guard let facts, let connection else { return .skipped }
        if let refusal = await CitusTables.refusal(connection) {
            let fix = "keep the schema upstream on one server: SELECT undistribute_table(…) for each of them"
            return .failed(cause: refusal, fix: fix, status: .configuration)
        }
        let found = "PostgreSQL \(facts.version), encoding \(facts.encoding)"
        guard facts.versionNumber < DatabaseSession.oldestVersion * 10_000 else { return .passed(detail: found) }
        return .warned(
            cause: "\(found): older than the oldest version that is tested",
            fix: "upgrade the server to PostgreSQL \(DatabaseSession.oldestVersion) or later"
        )
    }

    func clock() async -> Probe.Result {
        await asking { connection throws(PostgresError) in
            Self.judge(try await Retention(connection).clockDifference())
        }
    }

    private static func judge(_ clock: ClockDifference) -> Probe.Result {
        let difference = max(clock.ahead, .zero - clock.ahead)
        guard difference >= .seconds(5) else { return .passed(detail: "the same here and at the database") }
        let fix = "synchronize both machines' clocks (timedatectl set-ntp true)"
        guard clock.isTooLarge else {
            let text =
                "\(difference.components.seconds) s \(clock.ahead > .zero ? "ahead of" : "behind") the database's"
            return .warned(cause: "this machine's clock is \(text); retention stops from 5 minutes on", fix: fix)
        }
        return .failed(cause: "\(clock.description): retention deletes nothing", fix: fix, status: .configuration)
    }

    func connections() async -> Probe.Result {
        guard let facts, let connection else { return .skipped }
        return SessionBudget(configuration).judge(facts, isPooled: await connection.isPooled)
    }

    func ackWorth() async -> Probe.Result {
        await asking { connection throws(PostgresError) in
            let worth = try await AckWorth.ask(connection)
            guard !worth.isStalled else {
                return .failed(
                    cause: "commits wait for a standby (synchronous_standby_names), and none is connected",
                    fix: "bring the standby back, or change synchronous_standby_names and reload",
                    status: .temporaryFailure
                )
            }
            guard worth.isOnDisk else {
                return .warned(cause: worth.text, fix: "set fsync and full_page_writes to on, and reload the server")
            }
            return .passed(detail: worth.text)
        }
    }

    func disk() async -> Probe.Result {
        await asking { connection throws(PostgresError) in
            switch try await DatabaseDisk.look(connection) {
            case .hidden:
                return .passed(detail: "not seen: the role may not see the server's folder (pg_read_all_settings)")
            case .elsewhere(let folder):
                return .passed(detail: "not seen: the server's folder \(folder) is not on this machine")
            case .seen(let space):
                let text = "\(Amount.bytes(space.free)) free at \(space.folder)"
                guard space.free < 4 << 30 else { return .passed(detail: text) }
                return .warned(cause: "only \(text)", fix: "a larger disk, or a shorter retention.messages")
            }
        }
    }

    func schema() async -> Probe.Result {
        guard let connection else { return .skipped }
        do throws(MigrationError) {
            switch try await StoreHealth.check(connection) {
            case .ready:
                isSchemaCurrent = true
                return .passed(detail: "the schema is current and the database is writable")
            case .readOnly:
                let fix = "name the primary in database.url, or all hosts: a worker connects to the writable one"
                return .failed(cause: "the server is read-only", fix: fix, status: .temporaryFailure)
            case .schema(let state):
                return .failed(
                    cause: state.problem ?? "the schema is not this binary's",
                    fix: "see upstream-worker migrate status",
                    status: .configuration
                )
            }
        } catch {
            if case .database(let error, _) = error { return failed(error) }
            return .failed(cause: "\(error)", fix: "see upstream-worker migrate status", status: .configuration)
        }
    }

    func rights() async -> Probe.Result {
        await asking { connection throws(PostgresError) in
            let missing = try await WorkerRight.missing(on: connection)
            guard !missing.isEmpty else { return .passed(detail: "the role has all that run needs") }
            let shown = missing.prefix(5).joined(separator: ", ")
            let more = missing.count > 5 ? " and \(missing.count - 5) more" : ""
            return .failed(
                cause: "the role \(self.role) lacks \(shown)\(more)",
                fix: DatabaseAdvice.rights(role: self.role, database: self.facts?.database),
                status: .refused
            )
        }
    }

    func writes() async -> Probe.Result {
        let sender = configuration.senders.first?.senderID ?? "check"
        return await asking { connection throws(PostgresError) in
            try await TrialRun.store(connection, sender: sender)
            return .passed(detail: "a message, a conflict and a stanza for quarantine were stored, and rolled back")
        }
    }

    func partitions() async -> Probe.Result {
        await asking { connection throws(PostgresError) in
            try await TrialRun.partitions(connection)
            guard try await TrialRun.attempts(connection) else {
                return .warned(
                    cause: "a day's partition of messages was made, and rolled back; for that of attempts their "
                        + "table was in use for too long",
                    fix: "try again; run tries again by itself, and loses nothing meanwhile"
                )
            }
            return .passed(detail: "a day's partitions were made, and rolled back")
        }
    }

    /// Tries `database.read_url`: how far behind it is, and whether it is of the same cluster.
    func reading(_ url: String) async -> Probe.Result {
        do throws(PostgresError) {
            let settings = try PostgresSettings.reader(url: url)
            let reader = try await PostgresConnection.open(settings)
            let lag = try await reader.settledLag()
            try await reader.tryReading()
            let place = "connected to \(settings.description)"
            // Some providers hide the cluster's number.
            let clusters = try? (await reader.cluster(), await connection?.cluster())
            await reader.close()
            if let (here, there) = clusters, let there, here != there {
                return .warned(
                    cause: "\(place), which has another database than database.url's server",
                    fix: "name a standby of that server"
                )
            }
            guard let note = lag.note else { return .passed(detail: "\(place), which is the primary: 0 s behind") }
            guard let seconds = lag.seconds, seconds > 60 else { return .passed(detail: "\(place): \(note)") }
            return .warned(cause: "\(place): \(note)", fix: "upstream-worker doctor says more once it stays so")
        } catch {
            let fix = DatabaseAdvice.fix(error).replacing("database.url", with: "database.read_url")
            return .failed(cause: error.description, fix: fix, status: ExitStatus(error))
        }
    }

    func forHandler(
        _ body: @Sendable (PostgresConnection, _ role: String) async throws(PostgresError) -> Probe.Result
    ) async -> Probe.Result {
        guard isSchemaCurrent else { return .skipped }
        return await asking { connection throws(PostgresError) in try await body(connection, self.role) }
    }

    /// Whether these are regular expressions, which only the server can tell.
    func judge(_ expressions: [String]) async -> Probe.Result {
        await forHandler { connection, _ throws(PostgresError) in
            do throws(PostgresError) {
                try await connection.judge(expressions)
                return .passed(detail: "its regular expressions are valid")
            } catch  where error.sqlState?.hasPrefix("22") == true {
                return .failed(cause: error.description, fix: "correct the handler's where", status: .configuration)
            }
        }
    }

    /// The role that statements run as.
    var role: String { facts?.role ?? "upstream-worker" }

    /// The oldest PostgreSQL release that the tests run on.
    static let oldestVersion = 15

    private func asking(
        _ body: (PostgresConnection) async throws(PostgresError) -> Probe.Result
    ) async -> Probe.Result {
        guard let connection else { return .skipped }
        do throws(PostgresError) { return try await body(connection) } catch { return failed(error) }
    }

    private func failed(_ error: PostgresError) -> Probe.Result {
        .failed(
            cause: error.description,
            fix: DatabaseAdvice.fix(error, role: facts?.role, database: facts?.database),
            status: ExitStatus(error)
        )
    }
}

extension ProbeSequence {
    /// The sequences for what `run` needs, in its order: database, handlers, senders, the console's certificate.
    package static func all(_ configuration: WorkerConfiguration) -> [ProbeSequence] {
        let session = DatabaseSession(configuration)
        let handlers = configuration.handlers.map { handler in
            let expressions = handler.filter.expressions
            let filter = expressions.isEmpty ? [] : [Probe("where") { await session.judge(expressions) }]
            return ProbeSequence("handler \(handler.name)", filter + handler.kind.probes(session))
        }
        let console = configuration.consoleCertificateFile.map { file in
            let fix = "renew console.tls.certificate_file, then restart the console"
            return ProbeSequence("console", [Probe("certificate") { CertificateProbe.check(file: file, fix: fix) }])
        }
        let reading = configuration.database.readURL.map { url in
            ProbeSequence("database.read_url", [Probe("reads") { await session.reading(url) }])
        }
        return [.database(session)] + [reading].compactMap(\.self) + handlers
            + configuration.senders.indices.map { .sender(configuration, index: $0) } + [console].compactMap(\.self)
    }
}

/// The number of sessions that `run` opens, and whether the server has room for them.
struct SessionBudget {
    let needed: Int
    let purpose: String

    /// Counts the sessions of a worker with both roles.
    init(_ configuration: WorkerConfiguration) {
        let functions = configuration.handlers.reduce(0) { sum, handler in
            sum + (type(of: handler.kind).takesSessions ? handler.concurrency : 0)
        }
        // The monitor, retention, the heartbeat, the bell, and two for replays, one of which reads for those to handlers.
        let services = 6
        // Claims, settlements and heartbeats, and notifications.
        let handlers = configuration.handlers.count
        let dispatch = handlers == 0 ? 0 : PostgresDeliveryStore.mostSessions(handlers: handlers) + 1
        let writers = configuration.database.writers
        needed = writers + services + dispatch + functions
        var parts = ["\(writers) for database.writers"]
        if functions > 0 { parts.append("\(functions) for handlers that are functions") }
        parts.append("\(services + dispatch) of its own")
        purpose = parts.joined(separator: ", ")
    }

    /// Compares the budget with the server's limits; a pooler in between opens fewer sessions than it accepts.
    func judge(_ facts: DatabaseFacts, isPooled: Bool) -> Probe.Result {
        let usable = facts.maximumConnections - facts.reservedConnections
        let limits = [
            ("max_connections leaves", usable, "raise max_connections"),
            (
                "the role \(facts.role) is limited to", facts.roleLimit ?? .max,
                "ALTER ROLE \"\(facts.role)\" CONNECTION LIMIT -1"
            ),
            (
                "the database is limited to", facts.databaseLimit ?? .max,
                "ALTER DATABASE \"\(facts.database)\" CONNECTION LIMIT -1"
            ),
        ]
        for (name, limit, fix) in limits where limit < needed {
            let cause = "this worker opens up to \(needed) sessions (\(purpose)), and \(name) \(limit)"
            guard !isPooled else {
                return .warned(
                    cause: cause + "; a pooler stands in between, whose own limits could not be asked for",
                    fix: "make sure that the pooler lets in so many, and that its pool is large enough"
                )
            }
            return .failed(
                cause: cause,
                fix: "\(fix), or lower database.writers and the handlers' concurrency",
                status: .configuration
            )
        }
        // One of the sessions in use is ours.
        let free = usable - facts.connections + 1
        guard free >= needed else {
            return .warned(
                cause:
                    "this worker opens up to \(needed) sessions (\(purpose)), and of the \(usable) that max_connections "
                    + "leaves, \(max(0, free)) are free now",
                fix: "raise max_connections, or lower database.writers and the handlers' concurrency; a worker that is "
                    + "running already counts among those in use"
            )
        }
        return .passed(detail: "up to \(needed) sessions are needed (\(purpose)); \(free) of \(usable) are free")
    }
}
