import Postgres
import Synchronization
import Vocabulary

/// What a writer's last batches say about the statement for the next one.
final class InsertHistory: Sendable {
    /// How long no call is made after two consecutive new messages were declined.
    ///
    /// One may be the first of its sender.
    private static let pause = Duration.seconds(60)

    private struct State {
        var isDeclined = false
        @FixedInstant var pausedUntil = ContinuousClock.now
    }

    private let state = Mutex(State())
    private let known = Atomic<Int>(0)

    /// Whether a message alone in its batch is worth a call of ``StoreStatements/insertOne``.
    ///
    /// That declines every message while handlers of other workers subscribe, at the cost of a round trip.
    var isWorthIt: Bool { state.withLock { $0.pausedUntil <= .now } }

    /// Records the result of a call for a new message.
    func newMessage(isDeclined: Bool) {
        state.withLock { state in
            if isDeclined && state.isDeclined { state.pausedUntil = .now + Self.pause }
            state.isDeclined = isDeclined
        }
    }

    /// Whether a batch probably holds ids known to the ledger, judging by the previous one.
    ///
    /// Duplicates come in runs, as when a server resends what was not acked. `Benchmarks/Store/known.py` measures both
    /// ways to insert.
    var isMixedLikely: Bool { known.load(ordering: .relaxed) > 0 }

    /// Records how many rows of a batch were new.
    func inserted(_ new: Int, of count: Int) { known.store(count - new, ordering: .relaxed) }
}

extension BatchCommit {
    /// Inserts a row with the single-row statement; false if that declined.
    func insertAlone(_ row: Int, _ connection: isolated PostgresConnection) throws(PostgresError) -> Bool {
        let parameters = BatchEncoder(batch: batch, rows: [row], senders: senders, isAlone: true).newMessage()
        do throws(PostgresError) {
            return try execute(connection, StoreStatements.insertOne, parameters).only { row throws(PostgresError) in
                try row.next(Bool.self)
            }
        } catch  where [.schema, .permission].contains(error.failureClass) && !connection.isInTransaction {
            // A rule on a table can cause this: the statement for many rows reports it.
            return false
        }
    }
}
