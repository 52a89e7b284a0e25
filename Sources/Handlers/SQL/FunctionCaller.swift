package import Dispatcher
package import Postgres
import Synchronization
package import UpstreamKit
package import Vocabulary

/// Handler kind `sql`: calls a database function with the message, in the transaction that completes the delivery.
///
/// The function's effects and the delivery's end commit together or not at all: exactly once inside PostgreSQL. The
/// delete itself checks the lease, last: a worker that was stopped and lost its lease meanwhile loses the function's
/// effects as well, and heartbeats don't wait for a lock on the delivery while the function runs.
package final class FunctionCaller: Sendable {
    private let settings: PostgresSettings
    private let recording: AttemptRecording
    private let idle = Mutex<[PostgresClient]>([])

    /// A caller with its own connections, as many as there are concurrent calls; without `recording` it writes no
    /// history.
    package init(_ settings: PostgresSettings, recording: AttemptRecording? = nil) {
        var settings = settings
        settings.idleInTransactionTimeout = min(
            settings.idleInTransactionTimeout,
            PostgresSettings.shortIdleInTransaction
        )
        self.settings = settings
        self.recording = recording ?? AttemptRecording(worker: "", isWanted: false)
    }

    /// Runs one attempt, until the deadline at most, under the lease's fencing token; `settled` if the delivery is
    /// deleted.
    package func call(
        _ function: SQLFunction,
        handler: String,
        message: UpstreamMessage,
        token: Int64,
        deadline: ContinuousClock.Instant
    ) async -> AttemptEnd {
        let client = idle.withLock { $0.popLast() } ?? PostgresClient(settings)
        defer { idle.withLock { $0.append(client) } }
        do throws(PostgresError) {
            return try await client.run { connection throws(PostgresError) in
                try connection.attempt(FunctionCall(function, handler, message, token, deadline, recording))
            }
        } catch {
            if Task.isCancelled { return .verdict(.cancelled) }
            return .verdict(.unavailable(after: nil, FunctionCall.failure(of: error)))
        }
    }

    package func close() async {
        for client in idle.withLock({ $0 }) { await client.close() }
    }
}
