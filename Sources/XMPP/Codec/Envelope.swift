import Vocabulary

/// What stands in a payload's top-level object: where the known members are, and what repeats.
struct Envelope {
    /// What `message_type` says.
    enum MessageType {
        /// Absent or null: an upstream message.
        case absent
        /// `receipt`
        case receipt
        /// `ack`
        case ack
        /// `nack`
        case nack
        /// `control`
        case control
        /// Another text, or not a string.
        case unknown

        /// Whether it is about what we sent or about the connection, and so never stored nor acked.
        var isSignal: Bool {
            switch self {
            case .ack, .nack, .control: true
            case .absent, .receipt, .unknown: false
            }
        }
    }

    /// The first `message_id`.
    var messageID: JSONMember?
    /// The first `from`.
    var from: JSONMember?
    /// The first `category`.
    var category: JSONMember?
    /// The first `data`.
    var data: JSONMember?
    /// The first `message_type`.
    var typeMember: JSONMember?
    /// What the first `message_type` says.
    var type = MessageType.absent
    /// Whether every `message_type` is one of `ack`, `nack` and `control`.
    var isSignal = false
    /// Whether `message_id` or `from` stands more than once.
    var identityRepeats = false
    /// Whether another key stands more than once.
    var otherRepeats = false
    /// The length of the object of all other members; 0 where there are none.
    var extraCount = 0
}

/// Reads envelopes; keeps its storage from one to the next.
struct EnvelopeReader: Sendable {
    /// The scanner, whose members belong to the envelope read last.
    private(set) var scanner = JSONScanner()
    private var unescaped: [UInt8] = []
    private var otherKeys: [Range<Int>] = []

    /// The members that an envelope has by name; everything else is `extra`.
    enum Field: UInt8 {
        case messageID
        case from
        case category
        case data
        case messageType
        case other
    }

    /// Reads a payload.
    ///
    /// - Returns: The envelope, or nil where the payload is JSON but not an object.
    /// - Throws: ``JSONSyntaxError``
    mutating func read(_ text: UnsafeBufferPointer<UInt8>) throws(JSONSyntaxError) -> Envelope? {
        guard try scanner.scan(text) == .object else { return nil }
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

    /// Which member this is by its key's text, escapes decoded.
    mutating func field(of member: JSONMember, in text: UnsafeBufferPointer<UInt8>) -> Field {
        guard member.keyTraits.contains(.escaped) else {
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
        guard member.kind == .string else { return member.kind == .null ? .absent : .unknown }
        return withText(of: member, in: text) { type in
            if type.spells("receipt") { return .receipt }
            if type.spells("ack") { return .ack }
            if type.spells("nack") { return .nack }
            return type.spells("control") ? .control : .unknown
        }
    }

    /// The text of a string member of the envelope read last, found by its key; for what is not on the hot path.
    ///
    /// - Returns: The first such member's text as a string, or nil where it is absent or not a string.
    mutating func string(_ key: StaticString, in text: UnsafeBufferPointer<UInt8>) -> String? {
        for member in scanner.members where member.kind == .string {
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
        guard member.traits.contains(.escaped) else {
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

    /// Whether two keys outside the known ones have the same text: by pairs where they are few, else sorted, so that
    /// thousands of keys cost no quadratic time.
    private mutating func otherKeysRepeat(in text: UnsafeBufferPointer<UInt8>) -> Bool {
        let members = scanner.members
        var keys: [Range<Int>] = []
        swap(&keys, &otherKeys)
        defer { swap(&keys, &otherKeys) }
        keys.removeAll(keepingCapacity: true)
        // The marks are found first: finding them uses the storage that the keys then go to.
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
    /// Whether these bytes are exactly this text's.
    @inline(__always)
    func spells(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        let wanted = text.utf8Start
        for index in 0..<count where self[index] != wanted[index] { return false }
        return true
    }
}
