import Digests
import Postgres
import Synchronization
import Vocabulary

/// Whether a message alone in its batch is worth a call of ``StoreStatements/insertOne``.
///
/// That declines every message while handlers of other workers subscribe, at the cost of a round trip.
final class AloneInsert: Sendable {
    /// How long no call is made after two consecutive new messages were declined.
    ///
    /// One may be the first of its sender.
    private static let pause = Duration.seconds(60)

    private struct State {
        var isDeclined = false
        @FixedInstant var pausedUntil = ContinuousClock.now
    }

    private let state = Mutex(State())

    var isWorthIt: Bool { state.withLock { $0.pausedUntil <= .now } }

    /// Records the result of a call for a new message.
    func newMessage(isDeclined: Bool) {
        state.withLock { state in
            if isDeclined && state.isDeclined { state.pausedUntil = .now + Self.pause }
            state.isDeclined = isDeclined
        }
    }
}

extension BatchCommit {
    /// Inserts a row with the single-row statement; false if that declined.
    ///
    /// An older schema does not have the function, and a worker outlives `migrate down`.
    func insertAlone(_ row: Int, _ connection: isolated PostgresConnection) throws(PostgresError) -> Bool {
        let parameters = BatchEncoder(batch: batch, rows: [row], senders: senders).newMessage()
        do throws(PostgresError) {
            return try execute(connection, StoreStatements.insertOne, parameters).only { row throws(PostgresError) in
                try row.next(Bool.self)
            }
        } catch  where [.schema, .permission].contains(error.failureClass) && !connection.isInTransaction {
            return false
        }
    }
}

extension BatchEncoder {
    /// The parameters of ``StoreStatements/insertOne`` for the first row.
    func newMessage() -> PostgresParameters {
        let message = batch[rows[0]]
        var parameters = PostgresParameters(capacity: message.bytes.count + 256)
        message.messageKey.append(to: &parameters)
        message.fingerprint.append(to: &parameters)
        parameters.append(timestamp: message.receivedAt)
        senders[Int(message.sender)].withUnsafeBytes { parameters.append(bytes: $0, as: .text) }
        parameters.append(scope(of: message))
        parameters.append(message.messageID, of: message)
        parameters.append(message.registrationToken, of: message)
        message.deviceKey.append(to: &parameters)
        parameters.append(message.category, of: message)
        parameters.append(message.dataForm == .json ? message.data : nil, of: message)
        parameters.append(message.dataForm == .raw ? message.data : nil, of: message)
        parameters.append(message.extra, of: message)
        parameters.append(message.messageType, of: message)
        parameters.append(message.stanzaFrom, of: message)
        return parameters
    }

    /// What a message's key was derived from, in the terms of `upstream.id_scope`: sender and id, or the device as
    /// well.
    func scope(of message: borrowing IncomingMessage) -> String {
        var hash = SHA256()
        senders[Int(message.sender)].withUnsafeBytes { hash.update($0) }
        hash.update(0)
        let bytes = message.bytes.unsafeBytes
        if let id = message.messageID {
            hash.update(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[id.range])))
        }
        return hash.finish128() == message.messageKey ? "sender" : "device"
    }
}

extension PostgresParameters {
    /// Appends a text of the message; null if it has none.
    fileprivate mutating func append(_ span: ByteSpan?, of message: borrowing IncomingMessage) {
        guard let span else { return appendNull(.text) }
        // The message keeps the bytes alive.
        let bytes = message.bytes.unsafeBytes
        append(bytes: UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[span.range])), as: .text)
    }
}
