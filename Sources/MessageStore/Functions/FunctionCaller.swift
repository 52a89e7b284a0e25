package import Pipeline
package import Postgres
import Synchronization
package import UpstreamKit
package import Vocabulary

/// Handler kind `sql`: calls a database function with the message, in the transaction that completes the delivery.
///
/// The function's effects and the delivery's end commit together or not at all: exactly once inside PostgreSQL. The
/// lease is checked last, by the delete itself, so that a worker that was stopped and lost its lease meanwhile loses the
/// function's effects as well; and so that heartbeats don't wait for a lock on the delivery while the function runs.
package final class FunctionCaller: Sendable {
    private let settings: PostgresSettings
    private let idle = Mutex<[PostgresClient]>([])

    /// A caller with connections of its own, as many as calls run side by side.
    package init(_ settings: PostgresSettings) {
        self.settings = settings
    }

    /// Runs one attempt.
    ///
    /// - Parameters:
    ///   - function: A function that takes one `upstream.messages`.
    ///   - handler: The handler's name.
    ///   - message: The message; the function is given its row.
    ///   - token: The lease's fencing token.
    ///   - deadline: When the server is to give the call up.
    /// - Returns: How the attempt ended; `settled` where the delivery's row has been deleted.
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
                try connection.attempt(FunctionCall(function, handler, message, token, deadline))
            }
        } catch {
            if Task.isCancelled { return .verdict(.cancelled) }
            return .verdict(.unavailable(after: nil, FunctionCall.failure(of: error)))
        }
    }

    /// Ends the sessions.
    package func close() async {
        for client in idle.withLock({ $0 }) { await client.close() }
    }
}

/// One attempt's parameters and rules.
struct FunctionCall: Sendable {
    let function: SQLFunction
    let handler: String
    let message: UpstreamMessage
    let token: Int64
    let milliseconds: Int64

    init(
        _ function: SQLFunction,
        _ handler: String,
        _ message: UpstreamMessage,
        _ token: Int64,
        _ deadline: ContinuousClock.Instant
    ) {
        (self.function, self.handler, self.message, self.token) = (function, handler, message, token)
        let left = ContinuousClock.now.duration(to: deadline).components
        milliseconds = max(1, left.seconds * 1000 + left.attoseconds / 1_000_000_000_000_000)
    }

    /// The name is quoted, and can't be a parameter.
    ///
    /// Not prepared: a function that its owners replace meanwhile may come with another result type, which a prepared
    /// statement would stumble over for as long as the session lasts.
    var callSQL: String {
        "SELECT \(function.quoted)(message) FROM upstream.message_of($1, $2) AS message"
    }

    static let existsStatement = PostgresStatement(
        "SELECT EXISTS (SELECT FROM upstream.message_of($1, $2))"
    )

    static let completeStatement = PostgresStatement(
        "DELETE FROM upstream.deliveries WHERE message_key = $1 AND handler = $2 AND lease_token = $3"
    )

    static let isReadOnlyStatement = PostgresStatement("SELECT current_setting('transaction_read_only') = 'on'")

    static func failure(of error: PostgresError) -> HandlerFailure {
        HandlerFailure(group: "sql \(error.sqlState ?? "no SQLSTATE")", detail: error.description)
    }

    /// What an error that arose inside the call says about the message, whatever its SQLSTATE: functions raise what they
    /// like, and a table that is missing for one message may be there for the next.
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
    fileprivate func attempt(_ call: FunctionCall) throws(PostgresError) -> AttemptEnd {
        var end = AttemptEnd.settled
        var hasBegun = false
        do throws(PostgresError) {
            try transaction { connection throws(PostgresError) in
                try connection.limitStatements(milliseconds: Int(call.milliseconds), "SAVEPOINT handler")
                hasBegun = true
                if let verdict = try connection.callInSavepoint(call) {
                    end = .verdict(verdict)
                    return
                }
                var delivery = PostgresParameters()
                delivery.append(uuidHigh: call.message.messageKey.digest.high, low: call.message.messageKey.digest.low)
                delivery.append(call.handler)
                delivery.append(call.token)
                guard try connection.execute(FunctionCall.completeStatement, delivery).affectedRows == 1 else {
                    end = .lost
                    throw PostgresError(.other, "the lease has passed on")
                }
            }
        } catch {
            if case .lost = end { return .lost }
            // On a server that takes no writes no call could succeed.
            guard hasBegun, !Task.isCancelled, error.failureClass != .readOnly else { throw error }
            // The completion or the commit failed, of what the function did to the session or left to the commit; or the
            // session is gone. Should the commit have gone through though its reply was lost, then the delivery's row is
            // gone, and what this verdict leads to finds nothing to change.
            let failure = FunctionCall.failure(of: error)
            return .verdict(isOpen ? .retry(after: nil, failure) : .interrupted(failure))
        }
        return end
    }

    /// Calls the function so that its failure leaves the transaction usable.
    ///
    /// - Returns: nil where it succeeded, constraints that were deferred to the commit included.
    private func callInSavepoint(_ call: FunctionCall) throws(PostgresError) -> HandlerVerdict? {
        var key = PostgresParameters()
        key.append(uuidHigh: call.message.messageKey.digest.high, low: call.message.messageKey.digest.low)
        key.append(timestamp: call.message.receivedAtMicroseconds)
        do throws(PostgresError) {
            let rows = try query(call.callSQL, key).count
            // A function that returns a set may return an empty one.
            if rows == 0, try execute(FunctionCall.existsStatement, key).bool(0, 0) != true {
                return .reject(.missing)
            }
            try script("SET CONSTRAINTS ALL IMMEDIATE; RELEASE SAVEPOINT handler")
            return nil
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            if error.failureClass == .readOnly {
                let answer = try execute(FunctionCall.isReadOnlyStatement, PostgresParameters())
                if answer.bool(0, 0) == true { throw error }
            }
            if let obstacle = try obstacle(to: call, key) {
                return .unavailable(after: .seconds(30), FunctionCall.failure(of: obstacle))
            }
            return FunctionCall.verdict(of: error)
        }
    }

    /// Why the call can't even begin: no such function, no right to it, or none to look the message up.
    ///
    /// EXPLAIN resolves the function and checks the right to call it as the call does, and calls nothing.
    private func obstacle(
        to call: FunctionCall,
        _ key: borrowing PostgresParameters
    ) throws(PostgresError) -> PostgresError? {
        do throws(PostgresError) {
            _ = try execute(FunctionCall.existsStatement, key)
            _ = try query("EXPLAIN " + call.callSQL, key)
            return nil
        } catch {
            guard isOpen else { throw error }
            try script("ROLLBACK TO SAVEPOINT handler")
            return error
        }
    }
}
