package import Pipeline
package import Postgres
import Synchronization
package import UpstreamKit

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
            // No session, or COMMIT failed. Should the commit have gone through though its reply was lost, then the
            // delivery's row is gone, and what this verdict leads to finds nothing to change.
            return .verdict(FunctionCall.verdict(of: error))
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

    /// What a failed call says about the message.
    static func verdict(of error: PostgresError) -> HandlerVerdict {
        let state = error.sqlState ?? "no SQLSTATE"
        let failure = HandlerFailure(group: "sql \(state)", detail: error.description)
        // PL/pgSQL's own class: RAISE EXCEPTION is P0001 unless the function says otherwise.
        if state.hasPrefix("P0") {
            let prefix = "reject:"
            guard error.message.hasPrefix(prefix) else { return .retry(after: nil, failure) }
            return .reject(HandlerFailure(String(error.message.dropFirst(prefix.count).drop { $0 == " " })))
        }
        // An error without a code of its own, as extensions raise them over a message they can't digest.
        if state == "XX000" { return .retry(after: nil, failure) }
        switch error.failureClass {
        // The surroundings, and what an operator has to mend: no fault of the message.
        case .connection, .authentication, .resources, .intervention, .system, .readOnly, .permission:
            return .unavailable(after: nil, failure)
        case .schema where ["42883", "3F000", "42P01", "42725"].contains(state):
            return .unavailable(after: .seconds(30), failure)
        default: return .retry(after: nil, failure)
        }
    }
}

extension PostgresConnection {
    /// Calls the function, deletes the delivery, commits.
    fileprivate func attempt(_ call: FunctionCall) throws(PostgresError) -> AttemptEnd {
        var end = AttemptEnd.settled
        do throws(PostgresError) {
            try transaction { connection throws(PostgresError) in
                try connection.limitStatements(milliseconds: Int(call.milliseconds), "SAVEPOINT handler")
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
            throw error
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
            return FunctionCall.verdict(of: error)
        }
    }
}
