import Glibc
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

    private let sight: Sight
    private let isForTerminal: Bool
    private let strings: JSONEscape
    private let columns: [Shown]
    private var buffer: [UInt8] = []

    /// A column that is written, with what comes before its value in JSON.
    private struct Shown {
        let column: MessageColumn
        let kind: MessageColumn.Kind
        let secrecy: Secrecy
        let start: [UInt8]
        let verbatim: [UInt8]

        init(_ column: MessageColumn) {
            (self.column, kind, secrecy) = (column, column.traits.kind, column.traits.secrecy)
            let string = Array(",\"\(column.name)\":\"".utf8)
            if case .json(let name) = kind {
                (start, verbatim) = (string.dropLast(), Array(",\"\(name)\":\"".utf8))
            } else {
                (start, verbatim) = (string, [])
            }
        }

        static let all = MessageColumn.allCases.map(Shown.init)
    }

    /// Starts without lines.
    ///
    /// `payloads` may be false only for NDJSON. `isForTerminal` also escapes characters in devices' data that a
    /// terminal may act on.
    package init(_ format: Format, tokens: Bool, payloads: Bool = true, isForTerminal: Bool = false) {
        let sight = Sight(tokens: tokens, payloads: payloads)
        (self.format, self.isForTerminal, self.sight) = (format, isForTerminal, sight)
        strings = isForTerminal ? .stringForTerminal : .string
        columns = Shown.all.filter { sight.shows($0.secrecy) }
    }

    package var count: Int { buffer.count }

    /// Returns and removes what has been written so far; the next lines have as much room.
    package mutating func take() -> [UInt8] {
        let taken = buffer
        buffer = []
        buffer.reserveCapacity(taken.count + 4_096)
        return taken
    }

    /// Appends the header row of CSV; nothing for NDJSON.
    package mutating func appendHead() {
        guard format == .csv else { return }
        append(text: columns.map(\.column.name).joined(separator: ",") + "\r\n")
    }

    /// Appends a row's line, with its end.
    package mutating func append(_ page: MessagePage, _ row: Int) {
        switch format {
        case .ndjson:
            appendObject(of: page, row)
            buffer.append("\n")
        case .csv: appendRecord(page, row)
        }
    }

    package mutating func append(text: String) {
        var text = text
        text.withUTF8 { buffer.append(contentsOf: $0) }
    }

    // MARK: JSON

    /// Appends a row as a JSON object without a line end; only for NDJSON.
    package mutating func appendObject(of page: MessagePage, _ row: Int) {
        guard let fields = page[row] else { return }
        let start = buffer.count
        for shown in columns {
            switch shown.kind {
            case .messageKey, .deviceKey, .digest:
                guard let digest = fields.digest(shown.column) else { continue }
                buffer += shown.start
                buffer.append(uuid: digest)
                buffer.append("\"")
            case .time:
                guard let time = fields.time(shown.column) else { continue }
                buffer += shown.start
                buffer.append(rfc3339: time)
                buffer.append("\"")
            case .text: member(shown, fields)
            case .json: embed(shown, fields)
            }
        }
        if !sight.payloads { buffer.append(",\"payload\":\"hidden\"") }
        // Every member begins with a comma, the first one with the object.
        buffer[start] = UInt8(ascii: "{")
        buffer.append("}")
    }

    private mutating func member(_ shown: Shown, _ fields: MessageRow) {
        guard !fields.isNull(shown.column) else { return }
        buffer += shown.start
        fields.withText(shown.column, isMasked: sight.masks(shown.secrecy)) { strings.append($0, to: &buffer) }
        buffer.append("\"")
    }

    private mutating func embed(_ shown: Shown, _ fields: MessageRow) {
        guard !fields.isNull(shown.column) else { return }
        buffer += shown.start
        fields.withText(shown.column, isMasked: sight.masks(shown.secrecy)) { text in
            guard isForTerminal || text.hasLineEnd else { return buffer.append(contentsOf: text) }
            guard text.hasLineEnd else { return JSONEscape.jsonForTerminal.append(text, to: &buffer) }
            if isForTerminal {
                JSONEscape.jsonForTerminal.append(text, to: &buffer)
            } else {
                for byte in text { buffer.append(byte == 0x0A || byte == 0x0D ? 0x20 : byte) }
            }
            buffer += shown.verbatim
            strings.append(text, to: &buffer)
            buffer.append("\"")
        }
    }

    // MARK: CSV

    private mutating func appendRecord(_ page: MessagePage, _ row: Int) {
        guard let fields = page[row] else { return }
        var isFirst = true
        for shown in columns {
            if !isFirst { buffer.append(",") }
            isFirst = false
            switch shown.kind {
            case .messageKey, .deviceKey, .digest:
                if let digest = fields.digest(shown.column) { buffer.append(uuid: digest) }
            case .time: if let time = fields.time(shown.column) { buffer.append(rfc3339: time) }
            case .text, .json: field(shown, fields)
            }
        }
        buffer.append("\r\n")
    }

    private mutating func field(_ shown: Shown, _ fields: MessageRow) {
        guard !fields.isNull(shown.column) else { return }
        fields.withText(shown.column, isMasked: sight.masks(shown.secrecy)) { text in
            guard isForTerminal else { return quote(text) }
            var escaped = TerminalText.escape(String(decoding: text, as: UTF8.self))
            escaped.withUTF8 { quote(UnsafeRawBufferPointer($0)) }
        }
    }

    private mutating func quote(_ text: UnsafeRawBufferPointer) {
        let isPlain = !text.isEmpty && text.allSatisfy { $0 != 0x22 && $0 != 0x2C && $0 != 0x0A && $0 != 0x0D }
        guard !isPlain else { return buffer.append(contentsOf: text) }
        buffer.append("\"")
        for byte in text {
            if byte == 0x22 { buffer.append(byte) }
            buffer.append(byte)
        }
        buffer.append("\"")
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ text: StaticString) { text.withUTF8Buffer { append(contentsOf: $0) } }
}

extension UnsafeRawBufferPointer {
    fileprivate var hasLineEnd: Bool {
        guard let start = baseAddress else { return false }
        return memchr(start, 0x0A, count) != nil || memchr(start, 0x0D, count) != nil
    }
}
