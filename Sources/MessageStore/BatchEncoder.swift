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
        uuids(&parameters) { $0.messageKey }
        uuids(&parameters) { $0.fingerprint }
        times(&parameters)
        senderIDs(&parameters)
        spans(&parameters, .text) { $0.messageID }
        spans(&parameters, .text) { $0.registrationToken }
        uuids(&parameters) { $0.deviceKey }
        spans(&parameters, .text) { $0.category }
        spans(&parameters, .text) { $0.dataForm == .json ? $0.data : nil }
        spans(&parameters, .text) { $0.dataForm == .raw ? $0.data : nil }
        spans(&parameters, .text) { $0.extra }
        spans(&parameters, .text) { $0.messageType }
        spans(&parameters, .text) { $0.stanzaFrom }
        return parameters
    }

    /// The one array of ``StoreStatements/ledger``.
    func keys() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: rows.count * 20 + 64)
        uuids(&parameters) { $0.messageKey }
        return parameters
    }

    /// The 6 arrays of ``StoreStatements/quarantine``; `withIDs` is false where PostgreSQL may have refused an id.
    func quarantine(withIDs: Bool) -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        senderIDs(&parameters)
        spans(&parameters, .text) { withIDs ? $0.messageID : nil }
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
        spans(&parameters, .bytea) { $0.stanza }
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

    @inline(__always)
    private func uuids(_ parameters: inout PostgresParameters, _ value: (IncomingMessage) -> Digest128) {
        parameters.beginArray(of: .uuid, count: rows.count)
        for row in rows {
            let digest = value(batch[row])
            parameters.element(uuidHigh: digest.high, low: digest.low)
        }
        parameters.endArray()
    }

    @inline(__always)
    private func spans(
        _ parameters: inout PostgresParameters,
        _ type: PostgresType,
        _ span: (IncomingMessage) -> ByteSpan?
    ) {
        parameters.beginArray(of: type, count: rows.count)
        for row in rows {
            guard let span = span(batch[row]) else {
                parameters.nullElement()
                continue
            }
            batch[row].bytes.withUnsafeBytes { parameters.element(UnsafeRawBufferPointer(rebasing: $0[span.range])) }
        }
        parameters.endArray()
    }
}
