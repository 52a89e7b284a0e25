import Glibc
import Postgres
import UpstreamKit
import Vocabulary

extension BatchEncoder {
    /// The parameters of ``StoreStatements/insert`` up to the lease offer, for ``rows`` in key order.
    ///
    /// Ledger rows go in key order, which keeps writers from deadlocking; bodies in order of arrival, so that indexes
    /// that begin with a time grow at their right edge. A column without values is sent as an empty array, and a value
    /// common to all rows once: both cost the server less than a full array.
    func newMessages() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes + rows.count * 40)
        uuids(&parameters) { $0.pointee.messageKey }
        uuids(&parameters) { $0.pointee.fingerprint }
        times(&parameters)
        BatchEncoder(batch: batch, rows: rows.sorted(), senders: senders).bodies(&parameters)
        return parameters
    }

    /// The distinct senders of ``rows``, and what their keys are derived from.
    ///
    /// A worker derives all keys of a sender in one way, so any row of it tells which.
    func origins(_ parameters: inout PostgresParameters) {
        var firsts: [Int] = []
        for row in rows where !firsts.contains(where: { batch[$0].sender == batch[row].sender }) { firsts.append(row) }
        parameters.beginArray(of: .text, count: firsts.count)
        for row in firsts { senders[Int(batch[row].sender)].withUnsafeBytes { parameters.element($0) } }
        parameters.endArray()
        firsts.map { scope(of: batch[$0]) }.append(to: &parameters)
    }

    private func bodies(_ parameters: inout PostgresParameters) {
        let isUniform = hasOneOrigin
        uuids(&parameters) { $0.pointee.messageKey }
        times(&parameters)
        if isUniform { empty(&parameters) } else { senderIDs(&parameters) }
        column(&parameters) { $0.pointee.messageID }
        column(&parameters) { $0.pointee.registrationToken }
        uuids(&parameters) { $0.pointee.deviceKey }
        column(&parameters) { $0.pointee.category }
        column(&parameters) { $0.pointee.dataForm == .json ? $0.pointee.data : nil }
        column(&parameters) { $0.pointee.dataForm == .raw ? $0.pointee.data : nil }
        column(&parameters) { $0.pointee.extra }
        column(&parameters) { $0.pointee.messageType }
        if isUniform { empty(&parameters) } else { column(&parameters) { $0.pointee.stanzaFrom } }
        origin(&parameters, isUniform: isUniform)
    }

    /// The sender id and the stanza's `from` if all rows share them, else nulls.
    private func origin(_ parameters: inout PostgresParameters, isUniform: Bool) {
        guard isUniform, let first = rows.first.map({ batch[$0] }) else {
            parameters.appendNull(.text)
            return parameters.appendNull(.text)
        }
        senders[Int(first.sender)].withUnsafeBytes { parameters.append(bytes: $0, as: .text) }
        guard let from = first.stanzaFrom else { return parameters.appendNull(.text) }
        first.bytes.withUnsafeBytes {
            parameters.append(bytes: UnsafeRawBufferPointer(rebasing: $0[from.range]), as: .text)
        }
    }

    /// Whether all rows have the same sender and `from`.
    private var hasOneOrigin: Bool {
        batch.withUnsafeBufferPointer { messages in
            guard let base = messages.baseAddress, let first = rows.first.map({ base + $0 }) else { return true }
            let from = first.pointee.stanzaFrom
            return rows.allSatisfy { row in
                let message = base + row
                guard message.pointee.sender == first.pointee.sender else { return false }
                guard let from, let other = message.pointee.stanzaFrom else {
                    return (from == nil) == (message.pointee.stanzaFrom == nil)
                }
                let bytes = message.pointee.bytes.unsafeBytes.baseAddress
                guard let bytes, let firstBytes = first.pointee.bytes.unsafeBytes.baseAddress else { return false }
                return other.count == from.count
                    && memcmp(bytes + Int(other.start), firstBytes + Int(from.start), Int(from.count)) == 0
            }
        }
    }

    /// An array of text; empty if no row has a value.
    @inline(__always)
    private func column(
        _ parameters: inout PostgresParameters,
        _ span: (UnsafePointer<IncomingMessage>) -> ByteSpan?
    ) {
        let hasValue = batch.withUnsafeBufferPointer { messages in
            guard let base = messages.baseAddress else { return false }
            return rows.contains { span(base + $0) != nil }
        }
        if hasValue { spans(&parameters, .text, span) } else { empty(&parameters) }
    }

    private func empty(_ parameters: inout PostgresParameters) {
        parameters.beginArray(of: .text, count: 0)
        parameters.endArray()
    }
}
