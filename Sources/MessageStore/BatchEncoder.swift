import Postgres
import UpstreamKit

/// Writes chosen copies of a batch as the arrays that the statements take, one array for each column.
struct BatchEncoder {
    let batch: [IncomingMessage]
    let rows: [Int]
    /// The configured sender ids, UTF-8.
    let senders: [[UInt8]]

    /// The 13 arrays of ``StoreStatements/insert`` and ``StoreStatements/conflicts``, which turn `data` into json.
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

    /// The 6 arrays of ``StoreStatements/quarantine``; `withIDs` is false where PostgreSQL may have refused an id.
    func quarantine(withIDs: Bool) -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        senderIDs(&parameters)
        spans(&parameters, .text) { withIDs ? $0.pointee.messageID : nil }
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
        return parameters
    }

    private var estimatedBytes: Int {
        rows.reduce(into: 1_024) { sum, row in sum += batch[row].bytes.count + 192 }
    }

    private func senderIDs(_ parameters: inout PostgresParameters) {
        parameters.beginArray(of: .text, count: rows.count)
        for row in rows { senders[Int(batch[row].sender)].withUnsafeBytes { parameters.element($0) } }
        parameters.endArray()
    }

    private func times(_ parameters: inout PostgresParameters) {
        parameters.beginArray(of: .timestamptz, count: rows.count)
        for row in rows { parameters.element(timestamp: batch[row].receivedAt) }
        parameters.endArray()
    }

    /// Calls `body` with each row's message in its place: as a value it would be copied, and retained, for each column.
    @inline(__always)
    private func withMessages(_ body: (UnsafePointer<IncomingMessage>) -> Void) {
        batch.withUnsafeBufferPointer { messages in
            guard let base = messages.baseAddress else { return }
            for row in rows { body(base + row) }
        }
    }

    @inline(__always)
    private func uuids(_ parameters: inout PostgresParameters, _ value: (UnsafePointer<IncomingMessage>) -> Digest128) {
        parameters.beginArray(of: .uuid, count: rows.count)
        withMessages { message in
            let digest = value(message)
            parameters.element(uuidHigh: digest.high, low: digest.low)
        }
        parameters.endArray()
    }

    @inline(__always)
    private func spans(
        _ parameters: inout PostgresParameters,
        _ type: PostgresType,
        _ span: (UnsafePointer<IncomingMessage>) -> ByteSpan?
    ) {
        parameters.beginArray(of: type, count: rows.count)
        withMessages { message in
            guard let span = span(message) else { return parameters.nullElement() }
            message.pointee.bytes.withUnsafeBytes {
                parameters.element(UnsafeRawBufferPointer(rebasing: $0[span.range]))
            }
        }
        parameters.endArray()
    }
}
