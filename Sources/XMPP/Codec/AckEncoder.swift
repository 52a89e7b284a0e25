import CBytes
package import Vocabulary

/// Writes acks: `<message id=""><gcm
/// xmlns="google:mobile:data">{"to":…,"message_id":…,"message_type":"ack"}</gcm></message>`.
///
/// The received literals are echoed: escapes unchanged, printable characters as UTF-8. Whatever XML could read as
/// markup (`<`, `>`, `&`, `'`), controls (including DEL and U+0080 to U+009F), and U+FFFE and U+FFFF, which XML can't
/// hold, become `\uXXXX`. So the text means the same after any number of XML passes, nothing in an id can end the
/// element, and an ack is hardly longer than what it echoes. The bytes are written once, straight into the caller's
/// buffer.
///
/// Messages are read in place, in their batch: as values they would be copied for each question.
///
/// In a JSON container only the element's name differs; a receipt (XEP-0184) names the stanza's `id` in an attribute.
/// Each connection has one encoder, which its codec also asks whether an ack is too long.
package struct AckEncoder: Sendable {
    /// The most bytes of an ack: no server can be relied on to accept more, and one that does not would end the stream
    /// and send the message again, for ever.
    package static let mostBytes = 64 << 10

    private let isAddressed: Bool
    private let component: ComponentDomain?
    /// The most bytes of an ack that the server accepts.
    var limit = AckEncoder.mostBytes

    /// An encoder for a kind of server.
    ///
    /// - Parameters:
    ///   - dialect: With ``Dialect/xmpp`` and ``Dialect/component``, acks carry a `to`, the `from` of the acked stanza:
    ///     without it a standard server would deliver the ack to our own account. A component's acks also carry a
    ///     `from`, which no server adds: the address that the message was sent to.
    ///   - domain: The component's domain; not used otherwise.
    package init(dialect: Dialect, domain: String = "") {
        isAddressed = dialect != .ccs
        component = dialect == .component ? ComponentDomain(domain) : nil
    }

    /// The parts of a message for its ack; the message itself stays in place.
    private struct Source {
        let answer: AckAnswer
        let from: ByteSpan?
        let to: ByteSpan?
        let bytes: UnsafeBufferPointer<UInt8>
    }

    /// Reads field by field: a message that is passed, even borrowed, is copied.
    @inline(__always)
    private func source(_ batch: Span<IncomingMessage>, _ index: Int) -> Source {
        Source(
            answer: batch[index].answer,
            from: batch[index].stanzaFrom,
            to: batch[index].stanzaTo,
            bytes: batch[index].bytes.unsafeBytes
        )
    }

    /// The size in bytes of a message's ack if nothing in it needs an escape, as is usual; 0 for a message that is not
    /// acked.
    package func usualSize(of batch: Span<IncomingMessage>, _ index: Int) -> Int {
        size(of: source(batch, index), escape: 1)
    }

    /// The most bytes that a message's ack can take; 0 for one that is not acked.
    package func sizeLimit(of batch: Span<IncomingMessage>, _ index: Int) -> Int {
        let source = source(batch, index)
        // One byte becomes at most `\uXXXX` or `&quot;`; a longer UTF-8 sequence takes no more than 6 per byte
        // either.
        let limit = size(of: source, escape: 6)
        // Long acks are measured first, so that no space is reserved in vain.
        return limit <= AckEncoder.cheapLimit ? limit : write(source, into: nil)
    }

    /// Whether a message's ack takes more bytes than ``limit``.
    func isTooLarge(
        _ answer: AckAnswer,
        from: ByteSpan?,
        to: ByteSpan?,
        in bytes: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        let source = Source(answer: answer, from: from, to: to, bytes: bytes)
        return size(of: source, escape: 6) > limit && write(source, into: nil) > limit
    }

    /// Below this size the upper bound is good enough.
    private static let cheapLimit = 4_096

    private func size(of source: Source, escape: Int) -> Int {
        guard source.answer.isSent else { return 0 }
        let size = source.answer.frame + escape * source.answer.echoed
        guard isAddressed, let from = source.from else { return size }
        let addressed = size + AckEncoder.addressStart.utf8CodeUnitCount + 1 + escape * Int(from.count)
        guard let component else { return addressed }
        // The domain may be spelled differently in the `to`, with as many bytes.
        let sender = source.to.map { escape * Int($0.count) } ?? component.text.count
        return addressed + AckEncoder.senderStart.utf8CodeUnitCount + sender
    }

    /// Writes a message's ack, if it is to be acked.
    ///
    /// - Parameters:
    ///   - batch: The copy's batch, its transaction committed.
    ///   - index: The copy's index in it.
    ///   - buffer: Takes at least ``sizeLimit(of:_:)`` bytes.
    /// - Returns: The number of bytes written; 0 for a message that is not acked.
    /// - Precondition: `buffer` is large enough.
    package func encode(
        _ batch: Span<IncomingMessage>,
        _ index: Int,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> Int {
        write(source(batch, index), into: buffer)
    }

    private func write(_ source: Source, into buffer: UnsafeMutableRawBufferPointer?) -> Int {
        let (answer, bytes) = (source.answer, source.bytes)
        guard answer.isSent else { return 0 }
        var output = Output(buffer: buffer)
        output.write(answer.opening)
        writeAddresses(of: source, to: &output)
        output.write(answer.head)
        switch answer {
        case .gcm(let id, let to), .json(let id, let to):
            output.write(escaping: bytes, to)
            output.write(AckAnswer.middle)
            output.write(escaping: bytes, id)
        case .receipt(let id): output.write(attribute: bytes, id.range)
        case .none, .tooLarge: break
        }
        output.write(answer.tail)
        return output.count
    }

    private static var addressStart: StaticString { " to=\"" }
    private static var senderStart: StaticString { "\" from=\"" }

    /// Writes the ack's addresses, if it has any.
    private func writeAddresses(of source: Source, to output: inout Output) {
        guard isAddressed, let from = source.from else { return }
        output.write(AckEncoder.addressStart)
        output.write(attribute: source.bytes, from.range)
        if let component {
            output.write(AckEncoder.senderStart)
            write(component, source.to, of: source.bytes, to: &output)
        }
        output.write("\"")
    }

    /// Writes the address at our domain that a message was sent to; without one, the domain itself.
    private func write(
        _ component: ComponentDomain,
        _ addressed: ByteSpan?,
        of bytes: UnsafeBufferPointer<UInt8>,
        to output: inout Output
    ) {
        func writeDomain() { component.text.withUnsafeBufferPointer { output.write($0) } }
        guard let addressed else { return writeDomain() }
        let address = UnsafeBufferPointer(rebasing: bytes[addressed.range])
        guard let parts = component.parts(of: address) else { return writeDomain() }
        if let local = parts.local {
            output.write(attribute: address, local)
            output.write("@")
        }
        writeDomain()
        guard let resource = parts.resource else { return }
        output.write("/")
        output.write(attribute: address, resource)
    }

    /// The caller's buffer, filled from the front; without a buffer, bytes are only counted.
    private struct Output {
        let buffer: UnsafeMutableRawBufferPointer?
        var count = 0

        init(buffer: UnsafeMutableRawBufferPointer?) { self.buffer = buffer }

        mutating func write(_ text: StaticString) {
            write(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
        }

        mutating func write(_ bytes: UnsafeBufferPointer<UInt8>) {
            defer { count += bytes.count }
            guard let buffer else { return }
            precondition(buffer.count - count >= bytes.count, "the buffer is smaller than sizeLimit(of:)")
            guard let base = buffer.baseAddress, let source = bytes.baseAddress else { return }
            (base + count).copyMemory(from: source, byteCount: bytes.count)
        }

        /// Writes text as an attribute's value in double quotes; leaves out what XML can't hold.
        mutating func write(attribute bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>) {
            var start = range.lowerBound
            for at in range {
                guard let replacement = XMLEscape.replacement(for: bytes[at]) else { continue }
                write(UnsafeBufferPointer(rebasing: bytes[start..<at]))
                write(replacement)
                start = at + 1
            }
            write(UnsafeBufferPointer(rebasing: bytes[start..<range.upperBound]))
        }

        mutating func write(escaping bytes: UnsafeBufferPointer<UInt8>, _ span: ByteSpan) {
            guard let base = bytes.baseAddress else { return }
            var at = Int(span.start)
            let end = at + Int(span.count)
            while at < end {
                let plain = PlainRun.length(base + at, end - at)
                write(UnsafeBufferPointer(start: base + at, count: plain))
                at += plain
                guard at < end else { return }
                // At most U+FFFF: nothing beyond needs an escape.
                let length = min(PlainRun.sequenceLength(base[at]), end - at)
                var unit = UInt32(base[at]) & (length == 1 ? 0x7f : 0x7f >> UInt32(length))
                for offset in 1..<max(length, 1) { unit = unit << 6 | UInt32(base[at + offset] & 0x3f) }
                write(unit: unit)
                at += length
            }
        }

        private mutating func write(unit: UInt32) {
            defer { count += 6 }
            guard let buffer else { return }
            precondition(buffer.count - count >= 6, "the buffer is smaller than sizeLimit(of:)")
            buffer[count] = UInt8(ascii: "\\")
            buffer[count + 1] = UInt8(ascii: "u")
            for digit in 0..<4 {
                let value = UInt8(truncatingIfNeeded: unit >> UInt32(12 - 4 * digit)) & 15
                buffer[count + 2 + digit] = value < 10 ? value + 48 : value + 87
            }
        }
    }
}

/// The constant texts of each form of answer.
///
/// Computed, so that each use is a constant and the hot path has no lazy global.
extension AckAnswer {
    /// The text before the stanza's addresses.
    ///
    /// A CCS has always had an empty `id`; client libraries take one for a fault.
    fileprivate var opening: StaticString {
        switch self {
        case .gcm: "<message id=\"\""
        default: "<message"
        }
    }

    /// The text between the addresses and the first value.
    fileprivate var head: StaticString {
        switch self {
        case .gcm: "><gcm xmlns=\"google:mobile:data\">{\"to\":\""
        case .json: "><json xmlns=\"urn:xmpp:json:0\">{\"to\":\""
        case .receipt: "><received xmlns=\"urn:xmpp:receipts\" id=\""
        case .none, .tooLarge: ""
        }
    }

    /// The text between the token and the id.
    fileprivate static var middle: StaticString { "\",\"message_id\":\"" }

    /// The text after the last value.
    fileprivate var tail: StaticString {
        switch self {
        case .gcm: "\",\"message_type\":\"ack\"}</gcm></message>"
        case .json: "\",\"message_type\":\"ack\"}</json></message>"
        case .receipt: "\"/></message>"
        case .none, .tooLarge: ""
        }
    }

    /// The size of all texts in bytes.
    fileprivate var frame: Int {
        let middle = if case .receipt = self { 0 } else { AckAnswer.middle.utf8CodeUnitCount }
        return opening.utf8CodeUnitCount + head.utf8CodeUnitCount + middle + tail.utf8CodeUnitCount
    }

    /// The size of the echoed parts in bytes.
    fileprivate var echoed: Int {
        switch self {
        case .gcm(let id, let to), .json(let id, let to): Int(id.count) + Int(to.count)
        case .receipt(let id): Int(id.count)
        case .none, .tooLarge: 0
        }
    }
}

/// Runs of bytes that go into an ack unchanged.
enum PlainRun {
    /// The number of leading bytes that need no escape; the text is UTF-8.
    static func length(_ base: UnsafePointer<UInt8>, _ count: Int) -> Int {
        var at = ascii(base, count)
        while at < count, base[at] >= 0x80 {
            let length = min(sequenceLength(base[at]), count &- at)
            guard isPrintable(base + at, length) else { return at }
            at &+= length
            if at < count, base[at] < 0x80 { at &+= ascii(base + at, count &- at) }
        }
        return at
    }

    /// Whether a character outside ASCII is allowed in XML and is not a control.
    private static func isPrintable(_ character: UnsafePointer<UInt8>, _ length: Int) -> Bool {
        switch (character[0], length) {
        // U+0080 to U+009F.
        case (0xc2, 2): character[1] >= 0xa0
        // U+FFFE and U+FFFF. JSON text in UTF-8 holds surrogates only as escapes.
        case (0xef, 3): character[1] != 0xbf || character[2] < 0xbe
        case (0xc3..., 2...): true
        default: false
        }
    }

    /// The number of leading bytes that are printable ASCII except `<`, `>`, `&` and `'`.
    private static func ascii(_ base: UnsafePointer<UInt8>, _ count: Int) -> Int {
        var at = upstream_plain_ack(base, count)
        while at < count, isPlain(base[at]) { at &+= 1 }
        return at
    }

    /// The length of the UTF-8 sequence with this first byte.
    static func sequenceLength(_ lead: UInt8) -> Int {
        switch lead {
        case 0xc0...0xdf: 2
        case 0xe0...0xef: 3
        case 0xf0...: 4
        default: 1
        }
    }

    private static func isPlain(_ byte: UInt8) -> Bool {
        byte >= 0x20 && byte < 0x7f && byte | 2 != 0x3e && byte | 1 != 0x27
    }
}
