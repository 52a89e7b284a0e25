import Digests
package import Vocabulary
import XMLWire

/// Fills a message's byte storage, part by part.
struct SpanWriter {
    /// The storage's first byte; the caller has reserved enough room.
    let base: UnsafeMutablePointer<UInt8>
    private(set) var count = 0

    mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) -> ByteSpan {
        let start = count
        if let source = bytes.baseAddress { (base + count).update(from: source, count: bytes.count) }
        count += bytes.count
        return ByteSpan(start: start, count: bytes.count)
    }

    mutating func append(byte: UInt8) {
        base[count] = byte
        count += 1
    }

    /// Appends the text of a string literal's body.
    mutating func append(unescaping literal: UnsafeBufferPointer<UInt8>) -> ByteSpan {
        let start = count
        count += JSONLiteral.unescape(literal, into: base + count)
        return ByteSpan(start: start, count: count - start)
    }
}

extension UpstreamCodec {
    /// The longest `message_id` and `from` in bytes of their text.
    static let identityLimit: UInt32 = 4_096
    /// The longest `category` in bytes of its text.
    static let categoryLimit: UInt32 = 255

    /// Makes the message of an envelope that is not an ack, nack or control message.
    ///
    /// The storage holds, in this order: the payload's text, so that spans into it stay valid; the texts of known
    /// members with escapes; `extra`; the stanza's `from`, and `to` if an ack needs it; the stanza as received; what
    /// the answer names besides.
    mutating func assemble(
        _ envelope: Envelope,
        _ text: UnsafeBufferPointer<UInt8>,
        of stanza: Stanza,
        _ arrival: Arrival,
        answer: WantedAnswer = .gcm
    ) -> IncomingMessage {
        let delay = arrival.delay != nil && !hasDelayMember(text) ? arrival.delay : nil
        let raw = stanza.raw
        var capacity = text.count + envelope.extraCount + raw.count
        capacity += (arrival.from?.count ?? 0) + (arrival.to?.count ?? 0)
        if delay != nil { capacity += UpstreamCodec.delayRoom }
        capacity += answer.named?.count ?? 0
        capacity += UpstreamCodec.room(envelope.messageID) + UpstreamCodec.room(envelope.from)
        capacity += UpstreamCodec.room(envelope.category) + UpstreamCodec.room(envelope.typeMember)
        // The rest of the read takes about as much in proportion.
        let expected = arrival.following * capacity / max(raw.count, 1)
        let (bytes, base) = storage.room(capacity, expected: expected)
        var message = IncomingMessage(kind: .upstream, bytes: bytes, stanza: ByteSpan(start: 0, count: 0))
        note(arrival, in: &message)
        var writer = SpanWriter(base: base)
        message.payload = writer.append(text)
        message.messageID = UpstreamCodec.place(envelope.messageID, of: text, in: &writer)
        message.registrationToken = UpstreamCodec.place(envelope.from, of: text, in: &writer)
        message.category = UpstreamCodec.place(envelope.category, of: text, in: &writer)
        message.messageType = UpstreamCodec.place(envelope.typeMember, of: text, in: &writer)
        if envelope.extraCount > 0 || delay != nil {
            let start = writer.count
            writeExtra(text, delay, into: &writer)
            message.extra = ByteSpan(start: start, count: writer.count - start)
        }
        stanza.bytes.withUnsafeBufferPointer { bytes in
            if let from = arrival.from {
                message.stanzaFrom = writer.append(UnsafeBufferPointer(rebasing: bytes[from]))
            }
            if let to = arrival.to { message.stanzaTo = writer.append(UnsafeBufferPointer(rebasing: bytes[to])) }
        }
        message.stanza = raw.withUnsafeBufferPointer { writer.append($0) }
        let named = answer.named?.withUnsafeBufferPointer { writer.append($0) }
        message.bytes.truncate(to: writer.count)
        if let data = envelope.data {
            message.data = data.value
            message.dataForm = data.traits.isCastable ? .json : .raw
        }
        if let (reason, detail) = UpstreamCodec.identityFault(envelope) {
            message.kind = .malformed
            message.quarantine = reason
            message.quarantineDetail = detail
            if envelope.identityRepeats || message.messageID?.count == 0 { message.messageID = nil }
        } else {
            message.kind = envelope.type == .receipt ? .receipt : .upstream
            computeDigests(&message)
            // Spans: as a value the message would be copied.
            let spans = (message.messageID, message.registrationToken, message.category)
            if let (reason, detail) = UpstreamCodec.fault(envelope, spans) {
                message.quarantine = reason
                message.quarantineDetail = detail
            }
            if let id = envelope.messageID?.body, let to = envelope.from?.body {
                message.answer(answer, id: id, to: to, named: named)
            }
            let bytes = message.bytes.unsafeBytes
            if acks.isTooLarge(message.answer, from: message.stanzaFrom, to: message.stanzaTo, in: bytes) {
                message.kind = .malformed
                message.answer = .tooLarge
                message.quarantine = .fieldTooLong
                message.quarantineDetail = UpstreamCodec.ackTooLarge
            }
        }
        UpstreamCodec.dropUnstorable(envelope, &message)
        return message
    }

    /// The bytes that a member's unescaped copy may take.
    private static func room(_ member: JSONMember?) -> Int {
        guard let member, member.isString, member.traits.isEscaped else { return 0 }
        return Int(member.value.count)
    }

    /// The span of a string member's text: in the payload or, if it has escapes, in a copy.
    private static func place(
        _ member: JSONMember?,
        of text: UnsafeBufferPointer<UInt8>,
        in writer: inout SpanWriter
    ) -> ByteSpan? {
        guard let member, member.isString else { return nil }
        guard member.traits.isEscaped else { return member.body }
        return writer.append(unescaping: UnsafeBufferPointer(rebasing: text[member.body.range]))
    }

    /// Why the message can't be acked; nil if it can.
    private static func identityFault(_ envelope: Envelope) -> (QuarantineReason, StaticString)? {
        if envelope.identityRepeats { return (.identityAmbiguous, "message_id or from stands more than once") }
        if let detail = unusable(envelope.messageID) { return (.messageIDUnusable, detail) }
        if let detail = unusable(envelope.from) { return (.fromUnusable, detail) }
        return nil
    }

    /// Why a member is not a usable text; nil if it is one.
    private static func unusable(_ member: JSONMember?) -> StaticString? {
        guard let member else { return "missing" }
        guard member.isString else { return "not a string" }
        return member.body.count == 0 ? "empty" : nil
    }

    /// Why a message that can be acked belongs in quarantine; nil if it does not.
    private static func fault(
        _ envelope: Envelope,
        _ spans: (messageID: ByteSpan?, token: ByteSpan?, category: ByteSpan?)
    ) -> (QuarantineReason, StaticString)? {
        if isUnstorable(envelope.messageID) { return (.textUnstorable, "message_id") }
        if isUnstorable(envelope.from) { return (.textUnstorable, "from") }
        if let id = spans.messageID, id.count > identityLimit { return (.fieldTooLong, "message_id over 4096 bytes") }
        if let token = spans.token, token.count > identityLimit {
            return (.fieldTooLong, "from over 4096 bytes")
        }
        if envelope.otherRepeats { return (.duplicateKey, "a top-level key stands more than once") }
        if envelope.type == .unknown {
            return (.messageTypeUnknown, envelope.typeMember?.isString == true ? "not a type we know" : "not a string")
        }
        if let detail = unusable(envelope.category) { return (.categoryUnusable, detail) }
        if isUnstorable(envelope.category) { return (.textUnstorable, "category") }
        if let category = spans.category, category.count > categoryLimit {
            return (.fieldTooLong, "category over 255 bytes")
        }
        return nil
    }

    private static func isUnstorable(_ member: JSONMember?) -> Bool {
        guard let member, member.isString else { return false }
        return !member.traits.isStorable
    }

    /// Removes the spans of texts that no `text` column can hold.
    private static func dropUnstorable(_ envelope: Envelope, _ message: inout IncomingMessage) {
        if isUnstorable(envelope.messageID) { message.messageID = nil }
        if isUnstorable(envelope.from) { message.registrationToken = nil }
        if isUnstorable(envelope.category) { message.category = nil }
        if isUnstorable(envelope.typeMember) { message.messageType = nil }
    }

    /// Computes the three digests of docs/protocol.md (What identifies a message).
    private func computeDigests(_ message: inout IncomingMessage) {
        guard let id = message.messageID, let token = message.registrationToken else { return }
        var key = keyPrefix
        let storage = message.bytes
        storage.withUnsafeBytes { bytes in
            let tokenBytes = UnsafeRawBufferPointer(rebasing: bytes[token.range])
            if settings.idScope == .device {
                message.isKeyedByDevice = true
                key.update(tokenBytes)
                key.update(0)
            }
            key.update(UnsafeRawBufferPointer(rebasing: bytes[id.range]))
            message.deviceKey = Digest128(hashing: tokenBytes)
            let parts = (token, message.category, message.messageType, message.data)
            message.fingerprint = UpstreamCodec.fingerprint(parts, of: bytes)
        }
        message.messageKey = key.finish128()
    }

    /// The key that a message would have with its sender's other `id_scope`; nil for one without a key.
    package static func otherKey(
        of message: borrowing IncomingMessage,
        from sender: String
    ) -> (scope: IDScope, key: Digest128)? {
        guard message.quarantine == nil, let id = message.messageID, let token = message.registrationToken else {
            return nil
        }
        let isByDevice = !message.isKeyedByDevice
        var key = Array("\(sender)\0".utf8)
        message.bytes.withUnsafeBytes { bytes in
            if isByDevice {
                key += bytes[token.range]
                key.append(0)
            }
            key += bytes[id.range]
        }
        return (isByDevice ? .device : .sender, key.withUnsafeBytes { Digest128(hashing: $0) })
    }

    private typealias Parts = (token: ByteSpan, category: ByteSpan?, messageType: ByteSpan?, data: ByteSpan?)

    /// The most bytes gathered on the stack, to be hashed in one call.
    private static let gatheredBytes = 1024

    /// Computes a fingerprint: the length of each part, then its bytes; a missing part has the greatest length.
    private static func fingerprint(_ parts: Parts, of bytes: UnsafeRawBufferPointer) -> Digest128 {
        var size = 4 * 8 + Int(parts.token.count)
        size += Int(parts.category?.count ?? 0) + Int(parts.messageType?.count ?? 0) + Int(parts.data?.count ?? 0)
        guard size <= gatheredBytes else {
            var content = SHA256()
            add(parts.token, of: bytes, to: &content)
            add(parts.category, of: bytes, to: &content)
            add(parts.messageType, of: bytes, to: &content)
            add(parts.data, of: bytes, to: &content)
            return content.finish128()
        }
        return withUnsafeTemporaryAllocation(byteCount: gatheredBytes, alignment: 8) { gathered in
            var count = 0
            add(parts.token, of: bytes, to: gathered, &count)
            add(parts.category, of: bytes, to: gathered, &count)
            add(parts.messageType, of: bytes, to: gathered, &count)
            add(parts.data, of: bytes, to: gathered, &count)
            return Digest128(hashing: UnsafeRawBufferPointer(rebasing: gathered[..<count]))
        }
    }

    private static func add(_ part: ByteSpan?, of bytes: UnsafeRawBufferPointer, to content: inout SHA256) {
        guard let part else { return content.update(bigEndian: .max) }
        content.update(bigEndian: UInt64(part.count))
        content.update(UnsafeRawBufferPointer(rebasing: bytes[part.range]))
    }

    private static func add(
        _ part: ByteSpan?,
        of bytes: UnsafeRawBufferPointer,
        to gathered: UnsafeMutableRawBufferPointer,
        _ count: inout Int
    ) {
        let length = part.map { UInt64($0.count) } ?? .max
        gathered.storeBytes(of: length.bigEndian, toByteOffset: count, as: UInt64.self)
        count += 8
        guard let part else { return }
        UnsafeMutableRawBufferPointer(rebasing: gathered[count...])
            .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[part.range]))
        count += Int(part.count)
    }
}
