import Digests
import UpstreamKit
import Vocabulary

/// Messages as NDJSON lines or CSV records: what `list`, `tail` and `export` write and `replay import` reads.
///
/// A line is one JSON object. `data` and `extra` stand in it as the device wrote them, not as strings; line ends in
/// that text, which JSON allows between tokens, become spaces, and `data_verbatim` or `extra_verbatim` holds the exact
/// text as a string. `data_raw` holds, as a string, what jsonb would refuse. A member without a value is left out;
/// `"data":null` is a JSON null that the device sent. `registration_token` is written only on request; without it
/// ``TokenMask`` also masks the token in a receipt's data. `fingerprint` is what the ledger holds for the message;
/// without payloads it is left out as well.
package struct MessageLines {
    package enum Format: Sendable {
        /// One JSON object a line.
        case ndjson
        /// RFC 4180 with a header row; an empty field is null, `""` is the empty string.
        case csv
    }

    package let format: Format
    package let hasTokens: Bool
    /// Whether `data` and `extra` are written; otherwise an object says `"payload":"hidden"`.
    package let hasPayloads: Bool

    private let isForTerminal: Bool
    private let strings: JSONEscape
    private var buffer = LineBuffer()

    /// Starts without lines.
    ///
    /// `payloads` may be false only for NDJSON. `isForTerminal` also escapes characters in devices' data that a
    /// terminal may act on.
    package init(_ format: Format, tokens: Bool, payloads: Bool = true, isForTerminal: Bool = false) {
        self.format = format
        self.isForTerminal = isForTerminal
        hasTokens = tokens
        hasPayloads = payloads
        strings = isForTerminal ? .stringForTerminal : .string
    }

    /// The number of bytes not yet taken.
    package var count: Int { buffer.count }

    /// Returns and removes what has been written so far.
    package mutating func take() -> [UInt8] { buffer.take() }

    /// Appends the header row of CSV; nothing for NDJSON.
    package mutating func appendHead() {
        guard format == .csv else { return }
        let names = [
            "message_key", "received_at", "sender_id", "message_id", "category", "device_key",
            hasTokens ? "registration_token" : nil, "message_type", "stanza_from", "data", "data_raw", "extra",
            "fingerprint",
        ]
        append(text: names.compactMap(\.self).joined(separator: ",") + "\r\n")
    }

    /// Appends a row's line, with its end.
    package mutating func append(_ page: MessagePage, _ row: Int) {
        switch format {
        case .ndjson:
            appendObject(page, row)
            buffer.append("\n")
        case .csv: appendRecord(page, row)
        }
    }

    /// Appends a row as a JSON object without a line end; only for NDJSON.
    package mutating func appendObject(of page: MessagePage, _ row: Int) { appendObject(page, row) }

    package mutating func append(text: String) {
        var text = text
        text.withUTF8 { buffer.append(UnsafeRawBufferPointer($0)) }
    }

    // MARK: JSON

    /// Appends a row as a JSON object without a line end.
    mutating func appendObject(_ page: MessagePage, _ row: Int) {
        guard let fields = RowFields(page, row) else { return }
        buffer.append("{\"message_key\":\"")
        buffer.append(uuid: fields.keys.cursor.messageKey.digest)
        buffer.append("\",\"received_at\":\"")
        buffer.append(time: fields.keys.cursor.receivedAt)
        buffer.append("\"")
        member(",\"sender_id\":\"", fields, .senderID)
        member(",\"message_id\":\"", fields, .messageID)
        member(",\"category\":\"", fields, .category)
        buffer.append(",\"device_key\":\"")
        buffer.append(uuid: fields.keys.deviceKey.digest)
        buffer.append("\"")
        if hasTokens { member(",\"registration_token\":\"", fields, .registrationToken) }
        member(",\"message_type\":\"", fields, .messageType)
        member(",\"stanza_from\":\"", fields, .stanzaFrom)
        if hasPayloads {
            embed(",\"data\":", verbatim: ",\"data_verbatim\":\"", fields, .data)
            member(",\"data_raw\":\"", fields, .dataRaw)
            embed(",\"extra\":", verbatim: ",\"extra_verbatim\":\"", fields, .extra)
            buffer.append(",\"fingerprint\":\"")
            buffer.append(uuid: fields.fingerprint)
            buffer.append("\"}")
        } else {
            // Nor their hash: it would confirm a guess.
            buffer.append(",\"payload\":\"hidden\"}")
        }
    }

    private mutating func member(_ start: StaticString, _ fields: RowFields, _ column: MessagePage.Column) {
        guard !fields.isNull(column) else { return }
        buffer.append(start)
        fields.withText(column, tokens: hasTokens) { buffer.append(escaping: $0, strings) }
        buffer.append("\"")
    }

    private mutating func embed(
        _ start: StaticString,
        verbatim: StaticString,
        _ fields: RowFields,
        _ column: MessagePage.Column
    ) {
        guard !fields.isNull(column) else { return }
        buffer.append(start)
        fields.withText(column, tokens: hasTokens) { text in
            guard isForTerminal || text.hasLineEnd else { return buffer.append(text) }
            guard text.hasLineEnd else { return buffer.append(escaping: text, .jsonForTerminal) }
            if isForTerminal {
                buffer.append(escaping: text, .jsonForTerminal)
            } else {
                for byte in text { buffer.append(byte == 0x0A || byte == 0x0D ? 0x20 : byte) }
            }
            buffer.append(verbatim)
            buffer.append(escaping: text, strings)
            buffer.append("\"")
        }
    }

    // MARK: CSV

    private mutating func appendRecord(_ page: MessagePage, _ row: Int) {
        guard let fields = RowFields(page, row) else { return }
        buffer.append(uuid: fields.keys.cursor.messageKey.digest)
        buffer.append(",")
        buffer.append(time: fields.keys.cursor.receivedAt)
        for column in [MessagePage.Column.senderID, .messageID, .category] { field(fields, column) }
        buffer.append(",")
        buffer.append(uuid: fields.keys.deviceKey.digest)
        if hasTokens { field(fields, .registrationToken) }
        for column in [MessagePage.Column.messageType, .stanzaFrom, .data, .dataRaw, .extra] { field(fields, column) }
        buffer.append(",")
        buffer.append(uuid: fields.fingerprint)
        buffer.append("\r\n")
    }

    private mutating func field(_ fields: RowFields, _ column: MessagePage.Column) {
        buffer.append(",")
        guard !fields.isNull(column) else { return }
        fields.withText(column, tokens: hasTokens) { text in
            guard isForTerminal else { return quote(text) }
            var shown = TerminalText.escape(String(decoding: text, as: UTF8.self))
            shown.withUTF8 { quote(UnsafeRawBufferPointer($0)) }
        }
    }

    private mutating func quote(_ text: UnsafeRawBufferPointer) {
        let isPlain = !text.isEmpty && text.allSatisfy { $0 != 0x22 && $0 != 0x2C && $0 != 0x0A && $0 != 0x0D }
        guard !isPlain else { return buffer.append(text) }
        buffer.append("\"")
        for byte in text {
            if byte == 0x22 { buffer.append(byte) }
            buffer.append(byte)
        }
        buffer.append("\"")
    }
}

/// The values of one row, by column.
struct RowFields {
    let keys: MessagePage.Keys
    private let page: MessagePage
    private let row: Int

    /// The values of a row; nil if an outer join found no message.
    init?(_ page: MessagePage, _ row: Int) {
        guard let keys = page.keys(row) else { return nil }
        (self.keys, self.page, self.row) = (keys, page, row)
    }

    func isNull(_ column: MessagePage.Column) -> Bool { page.isNull(row, column) }

    func withBytes(_ column: MessagePage.Column, _ body: (UnsafeRawBufferPointer) -> Void) {
        page.withBytes(row, column, body)
    }

    /// Lends a value's bytes as shown: what devices sent is masked by ``TokenMask``.
    func withText(_ column: MessagePage.Column, tokens: Bool, _ body: (UnsafeRawBufferPointer) -> Void) {
        withBytes(column) { text in
            guard !tokens, [.data, .dataRaw, .extra].contains(column) else { return body(text) }
            var masked: [UInt8]?
            withBytes(.registrationToken) { masked = TokenMask.mask(text, of: $0) }
            guard let masked else { return body(text) }
            masked.withUnsafeBytes(body)
        }
    }

    /// Computed from the row: reading it from the ledger would cost a lookup in another large table.
    var fingerprint: Digest128 {
        var hash = SHA256()
        for column in [MessagePage.Column.registrationToken, .category, .messageType] { add(column, to: &hash) }
        add(isNull(.dataRaw) ? .data : .dataRaw, to: &hash)
        return hash.finish128()
    }

    private func add(_ column: MessagePage.Column, to hash: inout SHA256) {
        if isNull(column) { return hash.update(bigEndian: .max) }
        withBytes(column) { Fingerprint.add($0, to: &hash) }
    }
}
