import CBytes
package import Vocabulary

/// Writes the acks of a connection, whose codec also asks it whether an ack is too long.
///
/// The received literals are echoed: escapes unchanged, printable characters as UTF-8. Whatever XML could read as
/// markup (`<`, `>`, `&`, `'`), controls (including DEL and U+0080 to U+009F), and U+FFFE and U+FFFF, which XML can't
/// hold, become `\uXXXX`. So the text means the same after any number of XML passes, nothing in an id can end the
/// element, and an ack is hardly longer than what it echoes.
///
/// Messages are read in place, in their batch: as values they would be copied for each question.
package struct AckEncoder: Sendable {
    /// The most bytes of an ack that servers surely take; one that does not ends the stream and sends again, for ever.
    package static let mostBytes = 64 << 10

    private let isAddressed: Bool
    private let component: ComponentDomain?
    /// The most bytes of an ack that the server accepts.
    var limit = AckEncoder.mostBytes

    package init(_ settings: StreamSettings) {
        // Acks to a standard server carry a `to`, the `from` of the acked stanza: without it the server would deliver
        // them to ourselves. A component's also carry a `from`, which no server adds: the message's `to`.
        isAddressed = settings.dialect != .ccs
        component = settings.component
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

    /// The bytes of a message's ack if nothing in it needs an escape, as is usual; 0 for one that is not acked.
    package func usualSize(of batch: Span<IncomingMessage>, _ index: Int) -> Int {
        size(of: source(batch, index), escape: 1)
    }

    /// The most bytes that a message's ack can take; 0 for one that is not acked.
    package func sizeLimit(of batch: Span<IncomingMessage>, _ index: Int) -> Int {
        let source = source(batch, index)
        // One byte becomes at most `\uXXXX` or `&quot;`; longer UTF-8 sequences take no more per byte.
        let limit = size(of: source, escape: 6)
        // Long acks are measured first, so that no space is reserved in vain.
        return limit <= AckEncoder.cheapLimit ? limit : write(source, into: nil)
    }

    /// Whether a message's ack takes more bytes than ``limit``.
    func isTooLarge(_ answer: AckAnswer, from: ByteSpan?, to: ByteSpan?, in bytes: UnsafeBufferPointer<UInt8>) -> Bool {
        let source = Source(answer: answer, from: from, to: to, bytes: bytes)
        return size(of: source, escape: 6) > limit && write(source, into: nil) > limit
    }

    /// Below this size the upper bound is good enough.
    private static let cheapLimit = 4_096

    private func size(of source: Source, escape: Int) -> Int {
        guard let size = source.answer.form?.size(escape) else { return 0 }
        guard isAddressed, let from = source.from else { return size }
        let addressed = size + AckEncoder.addressStart.utf8CodeUnitCount + 1 + escape * Int(from.count)
        guard let component else { return addressed }
        // The domain may be spelled differently in the `to`, with as many bytes.
        let sender = source.to.map { escape * Int($0.count) } ?? component.text.count
        return addressed + AckEncoder.senderStart.utf8CodeUnitCount + sender
    }

    /// Writes a message's ack into a buffer of at least ``sizeLimit(of:_:)`` bytes; returns its size, 0 for none.
    package func encode(
        _ batch: Span<IncomingMessage>,
        _ index: Int,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> Int {
        write(source(batch, index), into: buffer)
    }

    private func write(_ source: Source, into buffer: UnsafeMutableRawBufferPointer?) -> Int {
        guard let form = source.answer.form else { return 0 }
        var output = Output(buffer: buffer)
        output.write(form.opening)
        writeAddresses(of: source, to: &output)
        output.write(form.head)
        if let to = form.to {
            output.write(escaping: source.bytes, to)
            output.write(AckForm.middle)
            output.write(escaping: source.bytes, form.id)
        } else {
            output.write(attribute: source.bytes, form.id.range)
        }
        output.write(form.tail)
        return output.count
    }

    private static var addressStart: StaticString { " to=\"" }
    private static var senderStart: StaticString { "\" from=\"" }

    /// Writes the ack's addresses, if it has any; a component's is the one that the message was sent to, or its domain.
    private func writeAddresses(of source: Source, to output: inout Output) {
        guard isAddressed, let from = source.from else { return }
        output.write(AckEncoder.addressStart)
        output.write(attribute: source.bytes, from.range)
        if let component {
            output.write(AckEncoder.senderStart)
            let address = source.to.map { UnsafeBufferPointer(rebasing: source.bytes[$0.range]) }
            let parts = address.flatMap { component.parts(of: $0) }
            if let address, let local = parts?.local {
                output.write(attribute: address, local)
                output.write("@")
            }
            component.text.withUnsafeBufferPointer { output.write($0) }
            if let address, let resource = parts?.resource {
                output.write("/")
                output.write(attribute: address, resource)
            }
        }
        output.write("\"")
    }

    /// The caller's buffer, filled from the front; without a buffer, bytes are only counted.
    private struct Output {
        let buffer: UnsafeMutableRawBufferPointer?
        var count = 0

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

/// The parts of an answer: constant texts, and the echoed spans between them.
private struct AckForm {
    var opening: StaticString
    /// The text between the addresses and the first value.
    var head: StaticString
    /// The token's literal; nil for a form whose only value is the attribute ``id``.
    var to: ByteSpan?
    var id: ByteSpan
    var tail: StaticString

    /// The text between the token and the id.
    static var middle: StaticString { "\",\"message_id\":\"" }

    /// The size in bytes if each echoed byte takes this many.
    func size(_ escape: Int) -> Int {
        let texts = opening.utf8CodeUnitCount + head.utf8CodeUnitCount + tail.utf8CodeUnitCount
        guard let to else { return texts + escape * Int(id.count) }
        return texts + AckForm.middle.utf8CodeUnitCount + escape * (Int(to.count) + Int(id.count))
    }
}

extension AckAnswer {
    /// The form, of literals, since a lazy global would cost each ack; nil if nothing is sent.
    @inline(__always)
    fileprivate var form: AckForm? {
        switch self {
        case .gcm(let id, let to):
            AckForm(
                // A CCS has always had an empty `id`; client libraries take one for a fault.
                opening: "<message id=\"\"",
                head: "><gcm xmlns=\"google:mobile:data\">{\"to\":\"",
                to: to,
                id: id,
                tail: "\",\"message_type\":\"ack\"}</gcm></message>"
            )
        case .json(let id, let to):
            AckForm(
                opening: "<message",
                head: "><json xmlns=\"urn:xmpp:json:0\">{\"to\":\"",
                to: to,
                id: id,
                tail: "\",\"message_type\":\"ack\"}</json></message>"
            )
        case .receipt(let id):
            AckForm(
                opening: "<message",
                head: "><received xmlns=\"urn:xmpp:receipts\" id=\"",
                id: id,
                tail: "\"/></message>"
            )
        case .none, .tooLarge: nil
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
