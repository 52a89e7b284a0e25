import Digests
import Glibc
import Postgres
package import Vocabulary

/// Encodes chosen copies of a batch as statement parameters: one array per column, or, for one alone, its values.
package struct BatchEncoder {
    let batch: [IncomingMessage]
    let rows: [Int]
    /// The configured sender ids, in UTF-8.
    let senders: [[UInt8]]
    /// Whether the values of a single row are sent without arrays.
    var isAlone = false

    // MARK: Statements

    /// The parameters of ``StoreStatements/insert`` up to the lease offer, for ``rows`` in key order.
    ///
    /// Ledger rows go in key order, which keeps writers from deadlocking; bodies in order of arrival, so that indexes
    /// that begin with a time grow at their right edge. A value common to all rows is sent once, which costs the server
    /// less than a full array.
    func newMessages() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes + rows.count * 40)
        ledger(&parameters)
        BatchEncoder(batch: batch, rows: rows.sorted(), senders: senders).bodies(&parameters)
        return parameters
    }

    private func bodies(_ parameters: inout PostgresParameters) {
        let isUniform = hasOneOrigin
        uuids(&parameters) { $0[$1].messageKey }
        times(&parameters)
        if isUniform { empty(&parameters) } else { senderIDs(&parameters) }
        contents(&parameters)
        if isUniform { empty(&parameters) } else { texts(&parameters) { $0[$1].stanzaFrom } }
        origin(&parameters, isUniform: isUniform)
    }

    /// The parameters of ``StoreStatements/insertOne``.
    func newMessage() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        ledger(&parameters)
        origins(&parameters)
        contents(&parameters)
        texts(&parameters) { $0[$1].stanzaFrom }
        return parameters
    }

    /// The 13 arrays of ``StoreStatements/conflicts``.
    func conflicts() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        ledger(&parameters)
        senderIDs(&parameters)
        contents(&parameters)
        texts(&parameters) { $0[$1].stanzaFrom }
        return parameters
    }

    /// The one array of ``StoreStatements/ledger``.
    func keys() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: rows.count * 20 + 64)
        uuids(&parameters) { $0[$1].messageKey }
        return parameters
    }

    /// The 7 arrays of ``StoreStatements/quarantine``; an id that `text` can't hold is null.
    func quarantine() -> PostgresParameters {
        var parameters = PostgresParameters(capacity: estimatedBytes)
        senderIDs(&parameters)
        texts(&parameters) { $0[$1].isHeldByText($0[$1].messageID) ? $0[$1].messageID : nil }
        rows.map { (BatchPlan.reason(batch[$0]) ?? .databaseRefused).rawValue }.append(to: &parameters)
        rows.map { batch[$0].quarantineDetail.description }.append(to: &parameters)
        texts(&parameters, .bytea) { $0[$1].stanza }
        times(&parameters)
        rows.map { Bytea(BatchEncoder.digest(batch[$0])) }.append(to: &parameters)
        return parameters
    }

    /// The digest by which `quarantine` recognises a stanza: SHA-256 over its sender without the resource, and its
    /// payload.
    ///
    /// Not over its bytes: a server that resends it adds a `<delay/>`, an id, a language, or writes the same XML
    /// differently. A message whose ack would be too large is identified by its key alone: it is resent for ever.
    package static func digest(_ message: borrowing IncomingMessage) -> [UInt8] {
        var hash = SHA256()
        guard message.answer != .tooLarge else {
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

    // MARK: Columns

    /// The ledger's columns.
    private func ledger(_ parameters: inout PostgresParameters) {
        uuids(&parameters) { $0[$1].messageKey }
        uuids(&parameters) { $0[$1].fingerprint }
        times(&parameters)
    }

    /// A message's own columns, the same in every table; SQL turns `data` into json.
    private func contents(_ parameters: inout PostgresParameters) {
        texts(&parameters) { $0[$1].messageID }
        texts(&parameters) { $0[$1].registrationToken }
        uuids(&parameters) { $0[$1].deviceKey }
        texts(&parameters) { $0[$1].category }
        texts(&parameters) { $0[$1].dataForm == .json ? $0[$1].data : nil }
        texts(&parameters) { $0[$1].dataForm == .raw ? $0[$1].data : nil }
        texts(&parameters) { $0[$1].extra }
        texts(&parameters) { $0[$1].messageType }
    }

    /// The distinct senders of ``rows``, and what their keys are derived from.
    ///
    /// A worker derives all keys of a sender in one way, so any of its rows shows which.
    func origins(_ parameters: inout PostgresParameters) {
        var firsts: [Int] = []
        for row in rows where !firsts.contains(where: { batch[$0].sender == batch[row].sender }) { firsts.append(row) }
        BatchEncoder(batch: batch, rows: firsts, senders: senders, isAlone: isAlone).senderIDs(&parameters)
        let scopes = firsts.map { batch[$0].isKeyedByDevice ? "device" : "sender" }
        if isAlone { parameters.append(scopes[0]) } else { scopes.append(to: &parameters) }
    }

    /// The sender id and the stanza's `from` if all rows share them, otherwise nulls.
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
        let messages = batch.span
        guard let first = rows.first else { return true }
        let (from, firstBytes) = (messages[first].stanzaFrom, messages[first].bytes.unsafeBytes.baseAddress)
        for row in rows {
            let other = messages[row].stanzaFrom
            guard messages[row].sender == messages[first].sender, other?.count == from?.count else { return false }
            guard let from, let other, let firstBytes, let bytes = messages[row].bytes.unsafeBytes.baseAddress else {
                continue
            }
            guard memcmp(bytes + Int(other.start), firstBytes + Int(from.start), Int(from.count)) == 0 else {
                return false
            }
        }
        return true
    }

    private var estimatedBytes: Int {
        rows.reduce(into: 1_024) { sum, row in sum += batch[row].bytes.count + 192 }
    }

    private func senderIDs(_ parameters: inout PostgresParameters) {
        guard !isAlone else {
            return senders[Int(batch[rows[0]].sender)].withUnsafeBytes { parameters.append(bytes: $0, as: .text) }
        }
        parameters.beginArray(of: .text, count: rows.count)
        for row in rows { senders[Int(batch[row].sender)].withUnsafeBytes { parameters.element($0) } }
        parameters.endArray()
    }

    private func times(_ parameters: inout PostgresParameters) {
        guard !isAlone else { return parameters.append(Timestamp(microseconds: batch[rows[0]].receivedAt)) }
        parameters.beginArray(of: .timestamptz, count: rows.count)
        for row in rows { parameters.element(timestamp: batch[row].receivedAt) }
        parameters.endArray()
    }

    private func empty(_ parameters: inout PostgresParameters, _ type: PostgresType = .text) {
        parameters.beginArray(of: type, count: 0)
        parameters.endArray()
    }

    /// A column's value of a message, which is borrowed in place: a value would be copied for each column.
    private typealias Field<Value> = (_ batch: Span<IncomingMessage>, _ row: Int) -> Value

    @inline(__always)
    private func uuids(_ parameters: inout PostgresParameters, _ value: Field<Digest128>) {
        if !isAlone { parameters.beginArray(of: .uuid, count: rows.count) }
        let messages = batch.span
        for row in rows {
            let digest = value(messages, row)
            if isAlone { parameters.append(digest) } else { parameters.element(uuidHigh: digest.high, low: digest.low) }
        }
        if !isAlone { parameters.endArray() }
    }

    /// Texts or bytes; a column without values is sent as an empty array, which costs the server less than nulls.
    @inline(__always)
    private func texts(
        _ parameters: inout PostgresParameters,
        _ type: PostgresType = .text,
        _ span: Field<ByteSpan?>
    ) {
        let messages = batch.span
        var hasValue = false
        for row in rows where span(messages, row) != nil {
            hasValue = true
            break
        }
        guard hasValue else { return isAlone ? parameters.appendNull(type) : empty(&parameters, type) }
        if !isAlone { parameters.beginArray(of: type, count: rows.count) }
        for row in rows {
            guard let span = span(messages, row) else {
                parameters.nullElement()
                continue
            }
            // The batch keeps the bytes alive.
            let bytes = UnsafeRawBufferPointer(
                UnsafeBufferPointer(rebasing: messages[row].bytes.unsafeBytes[span.range])
            )
            if isAlone { parameters.append(bytes: bytes, as: type) } else { parameters.element(bytes) }
        }
        if !isAlone { parameters.endArray() }
    }
}
