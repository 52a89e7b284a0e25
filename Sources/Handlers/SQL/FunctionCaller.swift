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

    /// A caller with its own connections, one for each concurrent call; without `recording` it writes no history.
    package init(_ settings: PostgresSettings, recording: AttemptRecording? = nil) {
        var settings = settings
        settings.idleInTransactionTimeout = min(
            settings.idleInTransactionTimeout,
            PostgresSettings.shortIdleInTransaction
        )
        self.settings = settings
        self.recording = recording ?? AttemptRecording(worker: "", isWanted: false)
    }

    /// Runs one attempt, to the deadline at most, under the fencing token; `settled` if the delivery is deleted.
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

/// One attempt: its parameters, and the meaning of its errors.
struct FunctionCall: Sendable {
    let function: SQLFunction
    let handler: String
    let message: FunctionStatements.Message
    let token: Int64
    /// The time limit of the attempt's statements.
    let milliseconds: Int64
    let recording: AttemptRecording
    private let started = ContinuousClock.now

    init(
        _ function: SQLFunction,
        _ handler: String,
        _ message: UpstreamMessage,
        _ token: Int64,
        _ deadline: ContinuousClock.Instant,
        _ recording: AttemptRecording
    ) {
        (self.function, self.handler, self.token, self.recording) = (function, handler, token, recording)
        self.message = FunctionStatements.Message(
            key: message.messageKey.digest,
            receivedAt: Timestamp(microseconds: message.receivedAtMicroseconds)
        )
        milliseconds = max(1, ContinuousClock.now.duration(to: deadline).milliseconds)
    }

    var delivery: FunctionStatements.Delivery {
        FunctionStatements.Delivery(
            key: message.key,
            handler: handler,
            token: token,
            worker: recording.worker,
            age: started.duration(to: .now)
        )
    }

    var sql: SQL { FunctionStatements.call(function, message) }

    static func failure(of error: PostgresError) -> HandlerFailure {
        HandlerFailure(group: "sql \(error.sqlState ?? "no SQLSTATE")", detail: error.description)
    }

    /// The verdict on an error inside the call, whatever its SQLSTATE: functions raise what they like, and a table
    /// missing for one message may be there for the next.
    static func verdict(of error: PostgresError) -> HandlerVerdict {
        let failure = failure(of: error)
        // PL/pgSQL's own class: RAISE EXCEPTION is P0001 unless the function says otherwise.
        let prefix = "reject:"
        guard error.sqlState?.hasPrefix("P0") == true, error.message.hasPrefix(prefix) else {
            return .retry(after: nil, failure)
        }
        return .reject(HandlerFailure(String(error.message.dropFirst(prefix.count).drop { $0 == " " })))
    }
}

extension PostgresConnection {
    /// Calls the function, deletes the delivery, commits.
    func attempt(_ call: FunctionCall) throws(PostgresError) -> AttemptEnd {
        var end = AttemptEnd.settled
        var hasBegun = false
        do throws(PostgresError) {
            // The function's session settings must not reach the next message, or a pooler's other clients.
            try transaction(thenResetting: true) { connection throws(PostgresError) in
                try connection.limitStatements(milliseconds: Int(call.milliseconds), "SAVEPOINT handler")
                hasBegun = true
                let isRecorded = call.recording.isOn
                if let verdict = try connection.callInSavepoint(call, isRecorded: isRecorded) {
                    end = .verdict(verdict)
                    return
                }
                guard try connection.complete(call, isRecorded: isRecorded) else {
                    end = .lost
                    throw PostgresError(.other, "the lease has passed on")
                }
            }
        } catch {
            if case .lost = end { return .lost }
            if error.failureClass == .cancelled, isOpen, !Task.isCancelled { return .verdict(.cancelled) }
            // On a server that takes no writes, no call could succeed.
            guard hasBegun, !Task.isCancelled, error.failureClass != .readOnly else { throw error }
            // The completion or the commit failed because of what the function did to the session or left to the
            // commit; or the session is gone. If the commit went through but its reply was lost, the delivery's row is
            // gone, and this verdict changes nothing.
            let failure = FunctionCall.failure(of: error)
            return .verdict(isOpen ? .retry(after: nil, failure) : .interrupted(failure))
        }
        return end
    }

    /// Deletes the delivery, with its history if that can be written; false if the lease was lost.
    private func complete(_ call: FunctionCall, isRecorded: Bool) throws(PostgresError) -> Bool {
        try call.recording.write(isWanted: isRecorded) { () throws(PostgresError) in
            try run(FunctionStatements.completeRecorded, call.delivery).affectedRows == 1
        } otherwise: { () throws(PostgresError) in
            try run(FunctionStatements.complete, call.delivery).affectedRows == 1
        } refusal: { error throws(PostgresError) in
            guard error.mayBeOfHistory, isOpen else { return nil }
            try script("ROLLBACK TO SAVEPOINT history")
            return StoreError(
                kind: .unavailable,
                sqlState: error.sqlState,
                message: error.message,
                failureClass: error.failureClass
            )
        }
    }

    /// Calls the function so that its failure leaves the transaction usable; nil once deferred constraints hold too.
    private func callInSavepoint(_ call: FunctionCall, isRecorded: Bool) throws(PostgresError) -> HandlerVerdict? {
        do throws(PostgresError) {
            let rows = try run(call.sql).count
            // A function that returns a set may return an empty one.
            if rows == 0, try !run(FunctionStatements.exists, call.message).value(Bool.self) {
                return .reject(.missing)
            }
            // Waits at most a second for a locked history.
            let further = isRecorded ? "; SAVEPOINT history; SET LOCAL lock_timeout = 1000" : ""
            try script("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT handler" + further)
            return nil
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            if error.failureClass == .readOnly, try run(FunctionStatements.isReadOnly, ()).value(Bool.self) {
                throw error
            }
            if let obstacle = try obstacle(to: call) {
                return .unavailable(after: .seconds(30), FunctionCall.failure(of: obstacle))
            }
            return FunctionCall.verdict(of: error)
        }
    }

    /// Why the call can't even begin: the function is missing, or the right to call it or to look the message up.
    ///
    /// EXPLAIN resolves the function and checks rights as the call does, and calls nothing.
    private func obstacle(to call: FunctionCall) throws(PostgresError) -> PostgresError? {
        do throws(PostgresError) {
            try run(FunctionStatements.exists, call.message)
            try run(call.sql.explained)
            return nil
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            return error
        }
    }
}

enum FunctionStatements {
    /// The key of a message's row.
    struct Message: Sendable {
        var key: Digest128
        var receivedAt: Timestamp
    }

    struct Delivery: Sendable {
        var key: Digest128
        var handler: String
        var token: Int64
        var worker = ""
        var age = Duration.zero
    }

    /// Calls a function with a message; the quoted name can't be a parameter.
    ///
    /// Not prepared: a function that its owners replace may come with another result type, on which a prepared
    /// statement would fail for the rest of the session.
    static func call(_ function: SQLFunction, _ message: Message) -> SQL {
        """
        SELECT \(raw: function.quoted)(message)
        FROM upstream.message_of(\(message.key), \(message.receivedAt)) AS message
        """
    }

    static let exists: PreparedStatement<Message> =
        "SELECT EXISTS (SELECT FROM upstream.message_of(\(\.key), \(\.receivedAt)))"

    static let complete: PreparedStatement<Delivery> = """
        DELETE FROM upstream.deliveries
        WHERE message_key = \(\.key) AND handler = \(\.handler) AND lease_token = \(\.token)
        """

    /// ``complete``, which also writes the attempt to `upstream.attempts`, in the function's transaction.
    static let completeRecorded: PreparedStatement<Delivery> = """
        WITH ended AS (
            DELETE FROM upstream.deliveries
            WHERE message_key = \(\.key) AND handler = \(\.handler) AND lease_token = \(\.token)
            RETURNING received_at, attempts
        ), noted AS (
            INSERT INTO upstream.attempt_batches (
                settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, numbers
            )
            SELECT
                clock_timestamp(), \(\.handler), \(\.worker), 'done', received_at, received_at, ARRAY[\(\.key)],
                ARRAY[extract(epoch FROM \(\.age))::real], ARRAY[extract(epoch FROM \(\.age))::real],
                CASE WHEN attempts > 0 THEN ARRAY[attempts + 1] END
            FROM ended
        )
        SELECT FROM ended
        """

    static let isReadOnly: PreparedStatement<Void> = "SELECT current_setting('transaction_read_only') = 'on'"
}

extension SQL {
    var explained: SQL { "EXPLAIN \(self)" }
}
