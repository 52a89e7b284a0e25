import Handlers
import MessageStore
import Probing
import UpstreamConfiguration
import Vocabulary

/// The number of sessions that `run` opens, and whether the server has room for them.
struct SessionBudget {
    let needed: Int
    let purpose: String

    /// Counts the sessions of a worker with both roles.
    init(_ configuration: WorkerConfiguration) {
        let functions = configuration.handlers.reduce(0) { sum, handler in
            sum + (type(of: handler.kind).takesSessions ? handler.concurrency : 0)
        }
        // The monitor, retention, the heartbeat, and two for replays, one of which reads for those to handlers.
        let services = 5
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

    /// Compares the budget with the server's limits, which are no reason to refuse with a pooler in between: it opens
    /// fewer sessions than it accepts.
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
