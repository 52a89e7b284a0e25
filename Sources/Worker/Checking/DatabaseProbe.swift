package import MessageStore
package import Postgres
import Vocabulary

extension ExitStatus {
    /// What a database error means for a command.
    package init(_ error: PostgresError) {
        self =
            switch error.failureClass {
            case .connection, .resources, .intervention, .timeout, .system, .deadline, .cancelled, .local, .closed:
                .unavailable
            case .authentication, .permission: .refused
            case .readOnly, .rollback, .lock: .temporaryFailure
            case .schema: .configuration
            case .data, .constraint, .limit, .missingPartition, .other: .internalError
            }
    }

    /// What a failed migration means for a command.
    package init(_ error: MigrationError) {
        switch error {
        case .database(let error, _): self.init(error)
        case .schema: self = .configuration
        }
    }
}

extension ProbeSequence {
    /// The steps about the database: connect, the schema, and whether it takes writes.
    package static func database(_ configuration: DatabaseConfiguration) -> ProbeSequence {
        let session = DatabaseSession(configuration.url)
        return ProbeSequence(
            "database",
            [
                Probe("connect") { await session.connect() },
                Probe("schema and writes") { await session.health() },
                Probe("what an ack is worth") { await session.ackWorth() },
            ]
        )
    }
}

/// The connection that the database's steps share.
private actor DatabaseSession {
    private let url: String
    private var connection: PostgresConnection?

    init(_ url: String) {
        self.url = url
    }

    func connect() async -> Probe.Result {
        do throws(PostgresError) {
            var settings = try PostgresSettings(url: url)
            // As a worker connects.
            settings.isWriter = true
            connection = try await PostgresConnection.open(settings)
            return .passed(detail: "connected to \(settings.description)")
        } catch {
            return failed(error)
        }
    }

    func health() async -> Probe.Result {
        guard let connection else { return .skipped }
        do throws(MigrationError) {
            switch try await StoreHealth.check(connection) {
            case .ready: return .passed(detail: "the schema is current and the database is writable")
            case .readOnly:
                return .failed(
                    cause: "the server is read-only",
                    fix: "name the primary in database.url, or all hosts: a worker connects to the writable one",
                    status: .temporaryFailure
                )
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

    func ackWorth() async -> Probe.Result {
        guard let connection else { return .skipped }
        do throws(PostgresError) {
            let worth = try await AckWorth.ask(connection)
            guard !worth.isStalled else {
                return .failed(
                    cause: "commits wait for a standby (synchronous_standby_names), and none is connected",
                    fix: "bring the standby back, or change synchronous_standby_names and reload",
                    status: .temporaryFailure
                )
            }
            return .passed(detail: worth.text)
        } catch {
            return failed(error)
        }
    }

    private func failed(_ error: PostgresError) -> Probe.Result {
        let fix =
            switch error.failureClass {
            case .connection, .deadline: "check that the server runs and that database.url names its host and port"
            case .authentication: "check pg_hba.conf, the role, and the passfile that database.url names"
            case .readOnly: "name the primary in database.url, or all hosts: a worker connects to the writable one"
            case .permission: "grant the role its rights: deploy/roles.sql"
            case .resources: "the server has run out of connections, disk or memory: see its log"
            default: "see the server's log"
            }
        return .failed(cause: error.description, fix: fix, status: ExitStatus(error))
    }
}
