import UpstreamKit
import Vocabulary

/// The failure of a delivery, in the two forms that are kept.
package struct HandlerFailure: Error, Sendable, Hashable {
    /// A short text, the same for all failures of one kind: `error_group`.
    ///
    /// ASCII letters, digits and ` _.:-#`, at most 120 bytes; for example `webhook status 503`.
    package var group: String

    /// Whether ``group`` was made from a handler's own words, which may hold payload.
    private(set) var isQuoted = false

    /// The text for logs: the group, unless it was made from a handler's own words.
    package var logText: String { isQuoted ? "a reason of the handler's own, kept in the database" : group }

    /// The full text for `last_error`, at most ``detailLimit`` bytes.
    ///
    /// Only for the table, never for a log: it may hold the start of an endpoint's answer.
    package var detail: String

    package static let detailLimit = 2048

    /// A failure with this group and detail, both cut to their limits.
    package init(group: String, detail: String) {
        self.group = Self.groupText(group, masksNumbers: false)
        self.detail = Self.storable(detail)
    }

    /// A failure whose group is made from a text by anybody.
    package init(_ text: String) {
        group = Self.groupText(text, masksNumbers: true)
        detail = Self.storable(text)
        isQuoted = true
    }

    /// A text in the characters of a group.
    ///
    /// `masksNumbers` masks what makes two failures of one kind differ: numbers, and words with digits. A number after a
    /// word such as `status` is a code, which tells kinds apart.
    private static func groupText(_ text: String, masksNumbers: Bool) -> String {
        var result: [UInt8] = []
        var (word, before): ([UInt8], [UInt8]) = ([], [])
        func close() {
            let isNumber = masksNumbers && word.contains { (0x30...0x39).contains($0) }
            let isCode = word.count <= 3 && Self.codes.contains(String(decoding: before, as: UTF8.self).lowercased())
            result += isNumber && !isCode ? [UInt8(ascii: "#")] : word
            if !word.isEmpty { before = word }
            word = []
        }
        for byte in text.utf8.prefix(512) {
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x5F: word.append(byte)
            default:
                close()
                switch byte {
                case UInt8(ascii: "."), UInt8(ascii: ":"), UInt8(ascii: "-"): result.append(byte)
                default: if result.last != 0x20 { result.append(0x20) }
                }
            }
            if result.count >= 120 { break }
        }
        close()
        while result.last == 0x20 { result.removeLast() }
        return result.isEmpty ? "unknown" : String(decoding: result.prefix(120), as: UTF8.self)
    }

    private static let codes: Set = ["status", "code", "http", "signal", "exit"]

    /// The text cut at a character's boundary, without U+0000, which no `text` column can hold.
    private static func storable(_ text: String) -> String {
        text.cut(to: detailLimit).replacing("\0", with: "\u{FFFD}")
    }
}

extension HandlerFailure {
    package static let timedOut = HandlerFailure(
        group: "timeout",
        detail: "the attempt took longer than the handler's timeout"
    )

    package static let missing = HandlerFailure(
        group: "message gone",
        detail: "the message is past retention, or its device was forgotten"
    )

    /// Workers keep dying while they hold the message.
    package static func crashed(times: Int) -> HandlerFailure {
        HandlerFailure(
            group: "worker crashed",
            detail:
                "\(times) workers in a row died while they held the message; it is a dead letter instead of being retried"
        )
    }

    /// The failure for a handler's own error, grouped by the error's type.
    package init(_ error: any Error) {
        if let error = error as? MessageDataError {
            // Its text names a type and a place in it, which distinguishes such failures.
            self.init(error.description)
            return
        }
        self.init(group: "\(type(of: error))", detail: "\(type(of: error)): \(error)")
    }
}
