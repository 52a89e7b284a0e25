/// Reads the JSON of the acks that a client (a worker) sends, strictly and independently of the worker's codec.
///
/// An ack is a JSON object of exactly `to`, `message_id` and `message_type`, all strings, the last one `ack`
/// (docs/protocol.md, A CCS). Everything else is malformed: the hosted service took such texts for downstream messages.
package struct ClientAckReader {
    /// What a text was.
    package enum Reading: Equatable {
        /// An ack; ``ClientAckReader/messageID`` and ``ClientAckReader/to`` hold its fields.
        case ack
        /// Not an ack, and why.
        case malformed(Problem)
    }

    /// Why a text is not an ack.
    package enum Problem: String, Sendable, CaseIterable {
        /// Not an object of string members and nothing else.
        case notAnObjectOfStrings = "not a JSON object of string members"
        /// A string that JSON does not allow.
        case badString = "a string with a bad escape or a raw control character"
        /// Another member than the three.
        case unknownMember = "a member other than to, message_id and message_type"
        /// The same member twice.
        case duplicateMember = "a member twice"
        /// One of the three is absent.
        case missingMember = "to, message_id or message_type is missing"
        /// Another `message_type`.
        case otherType = "message_type is not ack"
    }

    /// The unescaped fields, one after the other; lone surrogates stand as three bytes each.
    private var bytes: [UInt8] = []
    private var messageIDRange = 0..<0
    private var toRange = 0..<0

    package init() {}

    /// The id of the last ack, unescaped, and its `to`.
    package func withFields<R>(
        _ body: (_ messageID: UnsafeBufferPointer<UInt8>, _ to: UnsafeBufferPointer<UInt8>) -> R
    ) -> R {
        bytes.withUnsafeBufferPointer {
            body(UnsafeBufferPointer(rebasing: $0[messageIDRange]), UnsafeBufferPointer(rebasing: $0[toRange]))
        }
    }

    /// Reads one text.
    package mutating func read(_ text: UnsafeBufferPointer<UInt8>) -> Reading {
        bytes.removeAll(keepingCapacity: true)
        var cursor = JSONCursor(text)
        var messageID: Range<Int>?
        var to: Range<Int>?
        var type: Range<Int>?
        guard cursor.take(UInt8(ascii: "{")) else { return .malformed(.notAnObjectOfStrings) }
        repeat {
            guard cursor.peek == UInt8(ascii: "\"") else { return .malformed(.notAnObjectOfStrings) }
            guard let name = cursor.string(into: &bytes) else { return .malformed(.badString) }
            guard cursor.take(UInt8(ascii: ":")), cursor.peek == UInt8(ascii: "\"") else {
                return .malformed(.notAnObjectOfStrings)
            }
            guard let value = cursor.string(into: &bytes) else { return .malformed(.badString) }
            let fresh: Bool
            if equals(name, "to") {
                fresh = to == nil
                to = value
            } else if equals(name, "message_id") {
                fresh = messageID == nil
                messageID = value
            } else if equals(name, "message_type") {
                fresh = type == nil
                type = value
            } else {
                return .malformed(.unknownMember)
            }
            guard fresh else { return .malformed(.duplicateMember) }
        } while cursor.take(UInt8(ascii: ","))
        guard cursor.take(UInt8(ascii: "}")), cursor.isAtEnd else { return .malformed(.notAnObjectOfStrings) }
        guard let messageID, let to, let type else { return .malformed(.missingMember) }
        guard equals(type, "ack") else { return .malformed(.otherType) }
        messageIDRange = messageID
        toRange = to
        return .ack
    }

    private func equals(_ range: Range<Int>, _ text: StaticString) -> Bool {
        bytes.withUnsafeBufferPointer { storage in
            text.withUTF8Buffer { storage[range].elementsEqual($0) }
        }
    }
}
