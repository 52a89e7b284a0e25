package import Dispatcher
package import Postgres
import Synchronization
import UpstreamKit
package import Vocabulary

/// Handler kind `sql`: calls a database function with messages, in the transaction that completes their deliveries.
///
/// The function's effects and the deliveries' end commit together or not at all: exactly once inside PostgreSQL. The
/// delete itself checks the leases, last: a worker that was stopped and lost its leases meanwhile loses the function's
/// effects as well, and heartbeats don't wait for a lock on a delivery while the function runs.
package final class FunctionCaller: Sendable {
    private let settings: PostgresSettings
    private let recording: AttemptRecording
    private let idle = Mutex<[PostgresClient]>([])
    /// The functions that are known to take a message; what an array function returns is looked up for each call.
    private let forms = Mutex<Set<SQLFunction>>([])

    /// A caller with its own connections, one for each concurrent call; without `recording` it writes no history.
    package init(_ settings: PostgresSettings, recording: AttemptRecording? = nil) {
        var settings = settings
        settings.shortenIdleInTransaction()
        self.settings = settings
        self.recording = recording ?? AttemptRecording(worker: "", isWanted: false)
    }

    /// Runs one attempt for each message, to their deadline at most, under the fencing tokens of their leases.
    ///
    /// All in one transaction; if that fails, in halves, until those at fault are alone.
    package func call(_ function: SQLFunction, handler: String, _ messages: [AttemptCall]) async -> CallEnd {
        let client = idle.withLock { $0.popLast() } ?? PostgresClient(settings)
        defer { idle.withLock { $0.append(client) } }
        let takesMessage = forms.withLock { $0.contains(function) }
        let call = FunctionCall(function, handler, messages, recording)
        do throws(PostgresError) {
            let (result, form) = try await client.run { connection throws(PostgresError) in
                let form = if takesMessage { FunctionForm.message } else { try connection.form(of: function) }
                return (try connection.attempt(call, form), form)
            }
            // Its owners may replace it by one that takes an array.
            let isKnown = form == .message && result.hasSettledAll
            forms.withLock { if isKnown { $0.insert(function) } else { $0.remove(function) } }
            return result.end
        } catch {
            return Task.isCancelled
                ? CallEnd(messages.map { _ in .verdict(.cancelled) })
                : .failed(.unavailable(after: nil, FunctionCall.failure(of: error)), of: messages.count)
        }
    }

    package func close() async {
        for client in idle.withLock({ $0 }) { await client.close() }
    }
}

/// What a function takes and returns.
enum FunctionForm: String, Sendable {
    /// A message; what it returns is ignored.
    case message
    /// An array of messages; what it returns is ignored.
    case messages
    /// An array of messages; it returns a text for each: null or nothing for one that is done, else the reason.
    case answers
    /// The same, in one array.
    case answerArray
}

/// The messages of one call, and the meaning of its errors.
struct FunctionCall: Sendable {
    let function: SQLFunction
    let handler: String
    let deliveries: [FunctionStatements.Delivery]
    let recording: AttemptRecording
    private let deadline: ContinuousClock.Instant

    init(_ function: SQLFunction, _ handler: String, _ messages: [AttemptCall], _ recording: AttemptRecording) {
        (self.function, self.handler, self.recording) = (function, handler, recording)
        deadline = messages.first?.context.deadline ?? .now
        deliveries = messages.enumerated().map { place, call in
            FunctionStatements.Delivery(
                place: place,
                key: call.message.messageKey.digest,
                receivedAt: Timestamp(microseconds: call.message.receivedAtMicroseconds),
                token: call.delivery.lease.token
            )
        }
    }

    /// The time limit of the statements of an attempt alone.
    var milliseconds: Int { Int(max(1, ContinuousClock.now.duration(to: deadline).milliseconds)) }

    /// The parameters of statements about some of the deliveries, begun at `start`.
    func values(
        _ some: [FunctionStatements.Delivery],
        since start: ContinuousClock.Instant
    ) -> FunctionStatements.Values {
        let age = start.duration(to: .now)
        return FunctionStatements.Values(
            handler: handler,
            worker: recording.worker,
            keys: some.map(\.key),
            times: some.map(\.receivedAt),
            tokens: some.map(\.token),
            age: age,
            took: age / max(1, some.count)
        )
    }

    static func failure(of error: PostgresError) -> HandlerFailure {
        HandlerFailure(group: "sql \(error.sqlState ?? "no SQLSTATE")", detail: error.description)
    }

    /// The verdict on an error inside the call, whatever its SQLSTATE: functions raise what they like, and a table
    /// missing for one message may be there for the next.
    static func verdict(of error: PostgresError) -> HandlerVerdict {
        // PL/pgSQL's own class: RAISE EXCEPTION is P0001 unless the function says otherwise.
        guard error.sqlState?.hasPrefix("P0") == true, let reason = rejection(error.message) else {
            return .retry(after: nil, failure(of: error))
        }
        return .reject(reason)
    }

    /// The verdict on a message whose answer is a reason.
    static func verdict(of answer: String) -> HandlerVerdict {
        rejection(answer).map { .reject($0) } ?? .retry(after: nil, HandlerFailure(answer))
    }

    /// The reason of `reject: …`.
    private static func rejection(_ text: String) -> HandlerFailure? {
        let prefix = "reject:"
        guard text.hasPrefix(prefix) else { return nil }
        return HandlerFailure(String(text.dropFirst(prefix.count).drop { $0 == " " }))
    }
}
