import Digests
import Postgres
import UpstreamKit
import Vocabulary

/// Encodes chosen copies of a batch as statement parameters, one array per column.
struct BatchEncoder {
    let batch: [IncomingMessage]
    let rows: [Int]
    /// The configured sender ids, in UTF-8.
    let senders: [[UInt8]]

    func messages() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        uuids(&parameters) { $0.pointee.messageKey }
        uuids(&parameters) { $0.pointee.fingerprint }
        times(&parameters)
        senderIDs(&parameters)
        spans(&parameters, .text) { $0.pointee.messageID }
        spans(&parameters, .text) { $0.pointee.registrationToken }
        uuids(&parameters) { $0.pointee.deviceKey }
        spans(&parameters, .text) { $0.pointee.category }
        spans(&parameters, .text) { $0.pointee.dataForm == .json ? $0.pointee.data : nil }
        spans(&parameters, .text) { $0.pointee.dataForm == .raw ? $0.pointee.data : nil }
        spans(&parameters, .text) { $0.pointee.extra }
        spans(&parameters, .text) { $0.pointee.messageType }
        spans(&parameters, .text) { $0.pointee.stanzaFrom }
        return parameters
    }

    /// The one array of ``StoreStatements/ledger``.
    func keys() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: rows.count * 20 + 64)
        uuids(&parameters) { $0.pointee.messageKey }
        return parameters
    }

    /// The 7 arrays of ``StoreStatements/quarantine``; an id that `text` can't hold is null.
    func quarantine() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        senderIDs(&parameters)
        spans(&parameters, .text) { $0.pointee.isHeldByText($0.pointee.messageID) ? $0.pointee.messageID : nil }
        parameters.beginArray(of: .text, count: rows.count)
        for row in rows {
            var reason = (BatchPlan.reason(batch[row]) ?? .databaseRefused).rawValue
            reason.withUTF8 { parameters.element(UnsafeRawBufferPointer($0)) }
        }
        parameters.endArray()
        parameters.beginArray(of: .text, count: rows.count)
        for row in rows {
            batch[row].quarantineDetail.withUTF8Buffer { parameters.element(UnsafeRawBufferPointer($0)) }
        }
        parameters.endArray()
        spans(&parameters, .bytea) { $0.pointee.stanza }
        times(&parameters)
        parameters.beginArray(of: .bytea, count: rows.count)
        for row in rows { BatchEncoder.digest(batch[row]).withUnsafeBytes { parameters.element($0) } }
        parameters.endArray()
        return parameters
    }

    /// The digest by which `quarantine` recognises a stanza: SHA-256 over its sender without the resource, and its
    /// payload.
    ///
    /// Not over its bytes: a server that resends it adds a `<delay/>`, an id, a language, or writes the same XML
    /// differently. A message whose ack would be too large is identified by its key alone: it is resent for ever.
    static func digest(_ message: borrowing IncomingMessage) -> [UInt8] {
        var hash = SHA256()
        guard !message.isAckTooLarge else {
            hash.update(bigEndian: .max)
            hash.update(bigEndian: message.messageKey.high)
            hash.update(bigEndian: message.messageKey.low)
            return hash.finish()
        }
        message.bytes.withUnsafeBytes { bytes in
            let from = message.stanzaFrom.map { bytes[$0.range].prefix { $0 != UInt8(ascii: "/") } } ?? bytes[0..<0]
            hash.update(bigEndian: UInt64(from.count))
            hash.update(UnsafeRawBufferPointer(rebasing: from))
            hash.update(UnsafeRawBufferPointer(rebasing: bytes[(message.payload ?? message.stanza).range]))
        }
        return hash.finish()
    }

    var estimatedBytes: Int {
        rows.reduce(into: 1_024) { sum, row in sum += batch[row].bytes.count + 192 }
    }

    func senderIDs(_ parameters: inout PostgresParameters) {
        parameters.beginArray(of: .text, count: rows.count)
        for row in rows { senders[Int(batch[row].sender)].withUnsafeBytes { parameters.element($0) } }
        parameters.endArray()
    }

    func times(_ parameters: inout PostgresParameters) {
        parameters.beginArray(of: .timestamptz, count: rows.count)
        for row in rows { parameters.element(timestamp: batch[row].receivedAt) }
        parameters.endArray()
    }

    /// Calls `body` with a pointer to each row's message; a value would be copied and retained for each column.
    @inline(__always)
    func withMessages(_ body: (UnsafePointer<IncomingMessage>) -> Void) {
        batch.withUnsafeBufferPointer { messages in
            guard let base = messages.baseAddress else { return }
            for row in rows { body(base + row) }
        }
    }

    @inline(__always)
    func uuids(_ parameters: inout PostgresParameters, _ value: (UnsafePointer<IncomingMessage>) -> Digest128) {
        parameters.beginArray(of: .uuid, count: rows.count)
        withMessages { message in
            let digest = value(message)
            parameters.element(uuidHigh: digest.high, low: digest.low)
        }
        parameters.endArray()
    }

    @inline(__always)
    func spans(
        _ parameters: inout PostgresParameters,
        _ type: PostgresType,
        _ span: (UnsafePointer<IncomingMessage>) -> ByteSpan?
    ) {
        parameters.beginArray(of: type, count: rows.count)
        withMessages { message in
            guard let span = span(message) else { return parameters.nullElement() }
            // The batch keeps the bytes alive.
            let bytes = message.pointee.bytes.unsafeBytes
            parameters.element(UnsafeRawBufferPointer(UnsafeBufferPointer(rebasing: bytes[span.range])))
        }
        parameters.endArray()
    }
}
