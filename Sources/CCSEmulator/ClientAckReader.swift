/// A strict reader of a client's ack JSON, independent of the worker's codec.
///
/// An ack is a JSON object of exactly `to`, `message_id` and `message_type`, all strings, the last one `ack`
/// (docs/protocol.md, A CCS). Everything else is malformed: the hosted service took such texts for downstream messages.
package struct ClientAckReader {
    package enum Reading: Equatable {
        case ack
        case malformed(Problem)
    }

    package enum Problem: String, Sendable, CaseIterable {
        case notAnObjectOfStrings = "not a JSON object of string members"
        case badString = "a string with a bad escape or a raw control character"
        case unknownMember = "a member other than to, message_id and message_type"
        case duplicateMember = "a member twice"
        case missingMember = "to, message_id or message_type is missing"
        case otherType = "message_type is not ack"
    }

    /// The unescaped fields in a row; a lone surrogate takes three bytes.
    private var bytes: [UInt8] = []
    private var messageIDRange = 0..<0
    private var toRange = 0..<0

    package init() {}

    /// Lends the last ack's id and `to`, unescaped.
    package func withFields<R>(
        _ body: (_ messageID: UnsafeBufferPointer<UInt8>, _ to: UnsafeBufferPointer<UInt8>) -> R
    ) -> R {
        bytes.withUnsafeBufferPointer {
            body(UnsafeBufferPointer(rebasing: $0[messageIDRange]), UnsafeBufferPointer(rebasing: $0[toRange]))
        }
    }

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
