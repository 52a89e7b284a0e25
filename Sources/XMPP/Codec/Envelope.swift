import Vocabulary

/// The known members of a payload's top-level object, the first of each key, and which keys repeat.
struct Envelope {
    /// The kind that `message_type` names.
    enum MessageType {
        /// Absent or null: an upstream message.
        case absent
        case receipt
        case ack
        case nack
        case control
        case unknown

        /// Whether it concerns what we sent or the connection, and so is neither stored nor acked.
        var isSignal: Bool {
            switch self {
            case .ack, .nack, .control: true
            case .absent, .receipt, .unknown: false
            }
        }
    }

    var messageID: JSONMember?
    var from: JSONMember?
    var category: JSONMember?
    var data: JSONMember?
    var typeMember: JSONMember?
    var type = MessageType.absent
    /// Whether every `message_type` is one of `ack`, `nack` and `control`.
    var isSignal = false
    /// Whether `message_id` or `from` appears more than once.
    var identityRepeats = false
    /// Whether another key appears more than once.
    var otherRepeats = false
    /// The length of the object of all other members; 0 if there are none.
    var extraCount = 0
}

struct EnvelopeReader: Sendable {
    /// The scanner, with the members of the last envelope.
    private(set) var scanner = JSONScanner()
    private var unescaped: [UInt8] = []
    private var otherKeys: [Range<Int>] = []

    /// The known members; everything else is `extra`.
    enum Field: UInt8 {
        case messageID
        case from
        case category
        case data
        case messageType
        case other
    }

    /// Reads a payload; nil if it is JSON but not an object.
    mutating func read(_ text: UnsafeBufferPointer<UInt8>) throws(JSONSyntaxError) -> Envelope? {
        guard case .object = try scanner.scan(text) else { return nil }
        var envelope = Envelope()
        var others = 0
        for member in scanner.members {
            switch field(of: member, in: text) {
            case .messageID:
                if envelope.messageID != nil { envelope.identityRepeats = true } else { envelope.messageID = member }
            case .from:
                if envelope.from != nil { envelope.identityRepeats = true } else { envelope.from = member }
            case .category:
                if envelope.category != nil { envelope.otherRepeats = true } else { envelope.category = member }
            case .data:
                if envelope.data != nil { envelope.otherRepeats = true } else { envelope.data = member }
            case .messageType:
                let type = messageType(of: member, in: text)
                if envelope.typeMember == nil {
                    envelope.typeMember = member
                    envelope.type = type
                    envelope.isSignal = type.isSignal
                } else {
                    envelope.otherRepeats = true
                    envelope.isSignal = envelope.isSignal && type.isSignal
                }
            case .other:
                others += 1
                // Two quotes, a colon, and a comma or a brace.
                envelope.extraCount += Int(member.key.count) + Int(member.value.count) + 4
            }
        }
        if others > 0 { envelope.extraCount += 1 }
        if others > 1, !envelope.otherRepeats { envelope.otherRepeats = otherKeysRepeat(in: text) }
        return envelope
    }

    /// The field that a member's key names, escapes decoded.
    mutating func field(of member: JSONMember, in text: UnsafeBufferPointer<UInt8>) -> Field {
        guard member.keyTraits.isEscaped else {
            return EnvelopeReader.field(UnsafeBufferPointer(rebasing: text[member.key.range]))
        }
        return withUnescaped(member.key, in: text) { EnvelopeReader.field($0) }
    }

    private static func field(_ key: UnsafeBufferPointer<UInt8>) -> Field {
        switch key.count {
        case 4: key.spells("from") ? .from : key.spells("data") ? .data : .other
        case 8: key.spells("category") ? .category : .other
        case 10: key.spells("message_id") ? .messageID : .other
        case 12: key.spells("message_type") ? .messageType : .other
        default: .other
        }
    }

    private mutating func messageType(
        of member: JSONMember,
        in text: UnsafeBufferPointer<UInt8>
    ) -> Envelope.MessageType {
        guard member.isString else {
            if case .null = member.kind { return .absent }
            return .unknown
        }
        return withText(of: member, in: text) { type in
            if type.spells("receipt") { return .receipt }
            if type.spells("ack") { return .ack }
            if type.spells("nack") { return .nack }
            return type.spells("control") ? .control : .unknown
        }
    }

    /// The text of the last envelope's first string member of this key, if any; not for the hot path.
    mutating func string(_ key: StaticString, in text: UnsafeBufferPointer<UInt8>) -> String? {
        for member in scanner.members where member.isString {
            let found = withUnescaped(member.key, in: text) { $0.spells(key) }
            if found { return withText(of: member, in: text) { String(decoding: $0, as: UTF8.self) } }
        }
        return nil
    }

    private mutating func withText<Result>(
        of member: JSONMember,
        in text: UnsafeBufferPointer<UInt8>,
        _ body: (UnsafeBufferPointer<UInt8>) -> Result
    ) -> Result {
        guard member.traits.isEscaped else {
            return body(UnsafeBufferPointer(rebasing: text[member.body.range]))
        }
        return withUnescaped(member.body, in: text, body)
    }

    private mutating func withUnescaped<Result>(
        _ literal: ByteSpan,
        in text: UnsafeBufferPointer<UInt8>,
        _ body: (UnsafeBufferPointer<UInt8>) -> Result
    ) -> Result {
        unescaped.removeAll(keepingCapacity: true)
        append(literal, in: text)
        return unescaped.withUnsafeBufferPointer(body)
    }

    private mutating func append(_ literal: ByteSpan, in text: UnsafeBufferPointer<UInt8>) {
        let start = unescaped.count
        unescaped.append(contentsOf: repeatElement(0, count: Int(literal.count)))
        let count = unescaped.withUnsafeMutableBufferPointer { storage in
            storage.baseAddress.map {
                JSONLiteral.unescape(UnsafeBufferPointer(rebasing: text[literal.range]), into: $0 + start)
            }
        }
        unescaped.removeLast(unescaped.count - start - (count ?? 0))
    }

    /// Whether two unknown keys have the same text; many are sorted, so that thousands cost no quadratic time.
    private mutating func otherKeysRepeat(in text: UnsafeBufferPointer<UInt8>) -> Bool {
        let members = scanner.members
        var keys: [Range<Int>] = []
        swap(&keys, &otherKeys)
        defer { swap(&keys, &otherKeys) }
        keys.removeAll(keepingCapacity: true)
        // Found before their texts are stored: finding them uses the same storage.
        var others: [ByteSpan] = []
        for member in members where field(of: member, in: text) == .other { others.append(member.key) }
        unescaped.removeAll(keepingCapacity: true)
        for key in others {
            let start = unescaped.count
            append(key, in: text)
            keys.append(start..<unescaped.count)
        }
        return unescaped.withUnsafeBytes { storage in
            func equal(_ first: Range<Int>, _ second: Range<Int>) -> Bool {
                first.count == second.count && storage[first].elementsEqual(storage[second])
            }
            guard keys.count > 8 else {
                for (index, key) in keys.enumerated() {
                    for other in keys[..<index] where equal(key, other) { return true }
                }
                return false
            }
            keys.sort { storage[$0].lexicographicallyPrecedes(storage[$1]) }
            for (first, second) in zip(keys, keys.dropFirst()) where equal(first, second) { return true }
            return false
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    @inline(__always)
    func spells(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        let wanted = text.utf8Start
        for index in 0..<count where self[index] != wanted[index] { return false }
        return true
    }
}
