/// Cuts an XMPP stream into stanzas: bytes in, ``XMLStreamEvent`` out, for any cut of the bytes.
///
/// One framer reads one connection, over all stream documents of it (a new one begins after STARTTLS and SASL). What XMPP
/// forbids ends the stream for good, as does a stanza that is too long; what is too deep or too wide, and what breaks the
/// rules of namespaces, is skipped. Not thread-safe: used on one event loop.
///
/// The whitespace between stanzas is read here and never reaches the parser; everything from `<` to `>` is read by
/// libxml2 alone, and the bytes it took are the stanza's raw bytes: there is no second opinion on where a stanza ends. One
/// that is skipped is read by a ``StanzaSkipper`` instead, from its first byte.
package final class XMLFramer {
    /// What the sink asked for during an event.
    enum Request {
        case none
        case restart
        case stop
    }

    /// The parser sees at most so much at once, which bounds its buffers, and the attributes that it compares with each other
    /// before we hear of them.
    private static let sliceBytes = 4 * 1024
    /// A parser is replaced at the end of the stanza that makes it this much.
    ///
    /// libxml2 keeps every distinct name it has met for the life of a context, and refuses to go on at 10 MB of them.
    /// Since a stanza is bounded, so is what one context can gather, and a replacement never has to fall inside one.
    static let parserBytes = 512 * 1024
    /// And at the end of one that leaves it with so many names, which take some 60 bytes each.
    static let parserNames = 8 * 1024

    /// The limits it holds the peer to.
    package let limits: StreamLimits
    /// How far the current document has come.
    package internal(set) var position: XMLStreamPosition = .beforeHeader
    /// Why the stream was given up; nothing is read after it.
    package internal(set) var failure: XMLStreamError?
    /// The stanza in the middle of which the stream was given up; nil where it was given up outside of stanzas.
    package private(set) var failedStanza: StanzaName?
    /// All bytes taken, whitespace between stanzas included: a change shows that the peer is alive.
    package private(set) var bytesReceived: UInt64 = 0
    /// Whitespace bytes between stanzas (RFC 6120 §4.6.1).
    package internal(set) var keepaliveBytes: UInt64 = 0

    /// The stanza being read; owned, freed in `deinit`.
    ///
    /// Behind a pointer, so that no callback pays for a check of exclusive access. Never touched inside of one of its own
    /// methods: none of them calls out.
    let builder: UnsafeMutablePointer<StanzaBuilder>
    /// Whether the parser's callbacks mean anything: no failure, and no ``cut``.
    var isListening = true
    /// Open elements of the document, the stream's root included.
    var depth = 0
    /// The start tag of the stream, verbatim: a new parser is put into place by it.
    var header: [UInt8] = []
    /// A known header is being fed to a new parser.
    var isReplayingHeader = false
    /// Skips whitespace before the header, as after a restart it belongs to the document before.
    var skipsLeadingWhitespace = false
    var request = Request.none
    var sink: ((XMLStreamEvent) -> Void)?
    var parser: PushParser?

    /// What `parse` was given; valid while it runs.
    var slice = UnsafeRawBufferPointer(start: nil, count: 0)
    /// Bytes the parser had been given before `slice`.
    var sliceBase = 0
    /// Where in `slice` the document goes on in another parser.
    var cut: Int?
    /// Where in `slice` the bytes begin that belong to an unfinished header or stanza.
    var unfinishedStart = 0
    /// What the parser is in the middle of, while bytes of it are held back.
    private var token: UnfinishedToken?
    /// Why the stanza being read is nobody's: set by a callback, for ``step(_:)`` to act on.
    var skipReason: SkippedStanza.Reason?
    /// What is in the middle of skipping.
    var skipping: Skipping?
    /// Bytes that the parser was given, each time anew while they are unfinished; for tests.
    private(set) var bytesLookedAt = 0
    /// The last bytes of the unfinished stanza that the parser has not been given.
    private(set) var heldBytes = 0
    /// Bytes of the current buffer from the start of `slice` on.
    var bytesLeft = 0
    /// Where in `slice` the current event's last byte ends.
    var eventEnd = 0
    private var isStopped = false
    private var isFeeding = false

    /// Makes a framer at the start of a stream.
    package init(limits: StreamLimits = StreamLimits()) {
        self.limits = limits
        builder = .allocate(capacity: 1)
        builder.initialize(to: StanzaBuilder())
    }

    deinit {
        builder.deinitialize(count: 1)
        builder.deallocate()
    }

    /// Bytes received and not yet part of an event.
    ///
    /// During an event: what follows it in the buffer being fed. After STARTTLS's `<proceed/>` anything but 0 was put
    /// there before the handshake, by whoever sits on the path. Outside of an event: the bytes of what is unfinished.
    package var unreadBytes: Int {
        if isFeeding { return bytesLeft - eventEnd }
        if let skipping { return skipping.byteCount }
        return position == .header ? header.count : builder.pointee.raw.count
    }

    /// Reads one buffer and hands each event over as it is complete.
    ///
    /// During an event ``reset()``, ``stop()`` and ``unreadBytes`` may be used; `feed` may not.
    ///
    /// - Throws: the stream's failure, now and on every later call. Events before it were handed over.
    package func feed(
        _ bytes: UnsafeRawBufferPointer,
        _ sink: (XMLStreamEvent) -> Void
    ) throws(XMLStreamError) {
        precondition(!isFeeding, "fed during an event")
        if let failure { throw failure }
        guard !isStopped else { return }
        bytesReceived &+= UInt64(bytes.count)
        isFeeding = true
        withoutActuallyEscaping(sink) { escaping in
            self.sink = escaping
            var rest = bytes
            while !rest.isEmpty, failure == nil, !isStopped { rest = step(rest) }
            self.sink = nil
        }
        isFeeding = false
        guard let failure else { return }
        failedStanza = unfinishedName
        skipping = nil
        giveUpParser()
        throw failure
    }

    /// Goes on with a new stream document, directly after the current event.
    ///
    /// The bytes that follow the event in the same buffer belong to the new document; after STARTTLS they must not be
    /// there (``unreadBytes``). Outside of an event, what is unfinished is given up.
    package func reset() {
        if isFeeding {
            request = .restart
        } else {
            beginDocument()
        }
    }

    /// Reads nothing more.
    package func stop() {
        if isFeeding {
            request = .stop
        } else {
            isStopped = true
            giveUpParser()
        }
    }

    /// Gives back the memory that only a busy stream needs, where no stanza is unfinished.
    ///
    /// The next stanza makes a new parser, which takes about a microsecond.
    package func releaseMemory() {
        guard !isFeeding, position == .betweenStanzas || position == .closed else { return }
        giveUpParser()
        builder.pointee.reset(keepingStorage: false)
    }

    /// Whether there is a parser; for tests.
    var holdsParser: Bool { parser != nil }

    /// How many distinct names the parser holds on to.
    var heldNames: Int { parser?.nameCount ?? 0 }

    // MARK: - One step

    /// Reads the beginning of `rest` and returns what remains of it.
    private func step(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        bytesLeft = rest.count
        let start = begin(rest)
        guard failure == nil, start < rest.count else { return UnsafeRawBufferPointer(rebasing: rest[rest.count...]) }
        let rest = UnsafeRawBufferPointer(rebasing: rest[start...])
        bytesLeft = rest.count
        if skipping != nil { return skip(rest, from: 0) }
        guard let parser = readyParser() else { return rest }

        slice = UnsafeRawBufferPointer(rebasing: rest.prefix(min(Self.sliceBytes, budget)))
        unfinishedStart = 0
        if holdsBack(slice, from: parser) {
            keepUnfinished()
            return UnsafeRawBufferPointer(rebasing: rest[slice.count...])
        }
        if skipReason == nil { parser.parse(slice) }
        if let skipReason, failure == nil { return beginSkipping(skipReason, rest) }
        let parsed = slice.count
        sliceBase += parsed
        if failure == nil, cut == nil, !parser.isWellFormed { record(XMLStreamError(.notWellFormed)) }
        guard failure == nil else { return rest }
        if let cut {
            self.cut = nil
            isListening = true
            carryOutRequest()
            return UnsafeRawBufferPointer(rebasing: rest[cut...])
        }
        keepUnfinished()
        return UnsafeRawBufferPointer(rebasing: rest[parsed...])
    }

    /// Skips what is not the parser's business and returns where the parser has to begin.
    private func begin(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch position {
        case .header, .stanza:
            return 0
        case .betweenStanzas:
            return beginStanza(in: bytes, at: 0)
        case .closed:
            let start = endOfWhitespace(in: bytes, from: 0)
            keepaliveBytes &+= UInt64(start)
            if start < bytes.count { record(XMLStreamError(.notWellFormed)) }
            return start
        case .beforeHeader:
            let start = skipsLeadingWhitespace ? endOfWhitespace(in: bytes, from: 0) : 0
            guard start < bytes.count else { return start }
            switch bytes[start] {
            case 0x15, 0x16: record(XMLStreamError(.tlsRecord))
            // No UTF-8 text begins so; UTF-16 and UTF-32 do.
            case 0x00, 0xFE, 0xFF: record(XMLStreamError(.badEncoding))
            default: position = .header
            }
            return start
        }
    }

    /// Skips the whitespace between stanzas, and begins a stanza if its first byte is there.
    func beginStanza(in bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        let start = endOfWhitespace(in: bytes, from: offset)
        keepaliveBytes &+= UInt64(start - offset)
        guard start < bytes.count else {
            position = .betweenStanzas
            return start
        }
        guard bytes[start] == UInt8(ascii: "<") else {
            record(XMLStreamError(.textAtStreamLevel))
            return start
        }
        position = .stanza
        unfinishedStart = start
        return start
    }

    private func endOfWhitespace(in bytes: UnsafeRawBufferPointer, from offset: Int) -> Int {
        var offset = offset
        while offset < bytes.count {
            switch bytes[offset] {
            case 0x20, 0x09, 0x0A, 0x0D: offset += 1
            default: return offset
            }
        }
        return offset
    }

    /// How many bytes may be read before the limit of the header or stanza is reached.
    private var budget: Int {
        switch position {
        case .header: limits.headerBytes - header.count
        case .stanza: limits.stanzaBytes - builder.pointee.size(knownBelow: limits.stanzaBytes)
        case .beforeHeader, .betweenStanzas, .closed: Self.sliceBytes
        }
    }

    /// Copies the unfinished end of the slice, and sees to it that there may be more of it.
    private func keepUnfinished() {
        switch position {
        case .header:
            header.append(contentsOf: slice)
            if header.count >= limits.headerBytes { record(XMLStreamError(.limit(.headerBytes))) }
        case .stanza:
            builder.pointee.keepRaw(UnsafeRawBufferPointer(rebasing: slice[unfinishedStart...]))
            if builder.pointee.size(knownBelow: limits.stanzaBytes) >= limits.stanzaBytes {
                record(XMLStreamError(.limit(.stanzaBytes)))
            }
        case .beforeHeader, .betweenStanzas, .closed:
            break
        }
    }

    /// Whether these bytes can wait; if not, the parser has been given those that waited, unless the stanza is to be skipped.
    private func holdsBack(_ bytes: UnsafeRawBufferPointer, from parser: PushParser) -> Bool {
        let pendingBytes = sliceBase - parser.position
        bytesLookedAt += pendingBytes + bytes.count
        guard position == .stanza, pendingBytes >= UnfinishedToken.shortBytes else { return false }
        if token == nil {
            let isSection = parser.isInSection
            token = builder.pointee.raw.suffix(pendingBytes).withUnsafeBytes {
                UnfinishedToken($0, isSection: isSection)
            }
        }
        let mayEnd = token?.mayEnd(in: bytes) ?? true
        if let values = token?.values, values > limits.attributes + limits.namespaces {
            // libxml2 compares each attribute of a tag with each other.
            skipStanza(.attributes)
            return false
        }
        if !mayEnd, heldBytes + bytes.count < pendingBytes / 4 {
            heldBytes += bytes.count
            bytesLookedAt -= pendingBytes
            return true
        }
        token = nil
        guard heldBytes > 0 else { return false }
        // A copy, because callbacks write to the builder.
        let held = Array(builder.pointee.raw.suffix(heldBytes))
        heldBytes = 0
        let next = slice
        // Nothing ends in what was held back, so that no place in it is asked for.
        slice = UnsafeRawBufferPointer(start: nil, count: 0)
        held.withUnsafeBytes { parser.parse($0) }
        sliceBase += held.count
        slice = next
        return false
    }

    // MARK: - Parsers and documents

    /// The parser in use, or a new one that has been shown the stream's start tag.
    private func readyParser() -> PushParser? {
        if let parser { return parser }
        guard let parser = PushParser(for: self) else {
            record(XMLStreamError(.parserUnavailable))
            return nil
        }
        self.parser = parser
        sliceBase = 0
        guard position != .header else { return parser }
        depth = 0
        isReplayingHeader = true
        header.withUnsafeBytes { parser.parse($0) }
        isReplayingHeader = false
        sliceBase = header.count
        return parser
    }

    func giveUpParser() {
        parser = nil
        token = nil
        heldBytes = 0
        slice = UnsafeRawBufferPointer(start: nil, count: 0)
    }

    func carryOutRequest() {
        switch request {
        case .none: giveUpParser()
        case .restart: beginDocument()
        case .stop:
            isStopped = true
            giveUpParser()
        }
        request = .none
    }

    private func beginDocument() {
        giveUpParser()
        skipping = nil
        builder.pointee.reset()
        header.removeAll()
        depth = 0
        skipsLeadingWhitespace = true
        position = .beforeHeader
    }
}
