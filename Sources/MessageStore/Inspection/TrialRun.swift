import Dispatcher
package import Postgres
import Vocabulary

/// Tries `run`'s writes and rolls them back.
package enum TrialRun {
    /// The day of the trial partition: the last possible one, which nobody has.
    private static let day = Partitions.days.upperBound

    /// Stores a message, a conflict with it and a stanza for quarantine as the receive path does, and rolls all back.
    ///
    /// The message is made up; no device can have sent it, and nobody sees it. Waits at most 5 s for a lock. Throws what
    /// `run` would meet.
    package static func store(_ connection: PostgresConnection, sender: String) async throws(PostgresError) {
        let message = made(kind: .upstream)
        var other = message
        other.fingerprint = RandomSource.system.digest()
        var odd = made(kind: .malformed)
        odd.quarantine = .payloadNotJSON
        let batch = [message, other, odd]
        let commit = BatchCommit(batch: batch, plan: BatchPlan(batch), offer: .none, senders: [[UInt8](sender.utf8)])
        let outcomes = try await connection.trial { connection throws(PostgresError) in try commit.run(connection) }
        guard outcomes == [.stored, .conflict, .quarantined] else {
            throw PostgresError(.other, "a message that was stored, and taken back, came out as \(outcomes)")
        }
    }

    /// Creates a day's partition of messages, and rolls it back.
    package static func partitions(_ connection: PostgresConnection) async throws(PostgresError) {
        try await connection.trial { connection throws(PostgresError) in
            _ = try Partitions.ensure(connection, from: day, to: day)
        }
    }

    /// Creates a day's partition of the history of attempts, and rolls it back.
    ///
    /// In its own transaction, so that no lock of the messages' partition is held while this one waits.
    ///
    /// - Returns: False if the table was in use: `run` tries again.
    package static func attempts(_ connection: PostgresConnection) async throws(PostgresError) -> Bool {
        try await connection.trial { connection throws(PostgresError) in
            try connection.run(AttemptStatements.ensure(day...day)).value(Int.self) >= 0
        }
    }

    private static func made(kind: IncomingMessage.Kind) -> IncomingMessage {
        var bytes: [UInt8] = []
        func add(_ text: String) -> ByteSpan {
            let start = bytes.count
            bytes += text.utf8
            return ByteSpan(start: start, count: bytes.count - start)
        }
        let random = RandomSource.system.digest
        let key = random()
        let stanza = add("<message>upstream-worker check \(key)</message>")
        let spans = (add("check-\(key)"), add("check"), add("upstream-worker.check"), add("{}"))
        var message = IncomingMessage(kind: kind, bytes: bytes, stanza: stanza)
        (message.messageID, message.registrationToken, message.category, message.data) = spans
        message.dataForm = .json
        (message.messageKey, message.fingerprint, message.deviceKey) = (key, random(), random())
        // A scope that few senders have, so that upstream.senders is written to as well.
        message.isKeyedByDevice = true
        message.receivedAt = Timestamp.now.microseconds
        return message
    }
}
