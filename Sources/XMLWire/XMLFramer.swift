/// Cuts an XMPP stream into stanzas: bytes in, ``XMLStreamEvent`` out, for any cut of the bytes.
///
/// One framer reads one connection, over all stream documents of it (a new one begins after STARTTLS and SASL). What XMPP
/// forbids ends the stream, as does a stanza that is too long; what is too deep or too wide, and what breaks the
/// rules of namespaces, is skipped. Not thread-safe: used on one event loop.
///
/// The whitespace between stanzas is read here and never reaches the parser. Each stanza is read by one reader alone,
/// from its `<` to its `>`: by a ``PlainStanzaReader`` where it lies whole in the buffer and is of the ordinary form, else
/// by libxml2; the bytes it took are the stanza's raw bytes. One that is skipped is read by a ``StanzaSkipper`` instead,
/// from its first byte.
package final class XMLFramer {
    /// The part of a buffer that the parser is given at once.
    struct Window {
        /// What `parse` was given; valid while it runs.
        var slice = UnsafeRawBufferPointer(start: nil, count: 0)
        /// Bytes the parser had been given before `slice`.
        var base = 0
        /// Where in `slice` the bytes begin that belong to an unfinished header or stanza.
        var unfinishedStart = 0
        /// Bytes of the current buffer from the start of `slice` on.
        var bytesLeft = 0
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

    /// The stanza in the middle of which the stream was given up; nil where it was given up outside of stanzas.
    package private(set) var failedStanza: StanzaName?
    /// All bytes taken, whitespace between stanzas included: a change shows that the peer is alive.
    package private(set) var bytesReceived: UInt64 = 0
    /// Whitespace bytes between stanzas (RFC 6120 §4.6.1).
    package private(set) var keepaliveBytes: UInt64 = 0

    /// Every decision about the stream; owned, freed in `deinit`.
    ///
    /// Behind a pointer, as the builder is, so that no callback pays for a check of exclusive access.
    let machine: UnsafeMutablePointer<FramerStateMachine>
    /// The stanza being read; owned, freed in `deinit`.
    ///
    /// Never touched inside of one of its own methods: none of them calls out.
    let builder: UnsafeMutablePointer<StanzaBuilder>
    /// The start tag of the stream, verbatim: a new parser is put into place by it.
    var header: [UInt8] = []
    /// The default namespace of the stream, where a stanza of the ordinary form can be read without the parser; nil where
    /// that can't be.
    var plainNamespace: [UInt8]?
    /// Whether stanzas of the ordinary form are read without the parser; tests compare both ways.
    var readsPlainStanzas = true
    var sink: ((XMLStreamEvent) -> Void)?
    var parser: PushParser?
    /// Where in the buffer the parser is.
    var window = Window()
    /// The end of an unfinished stanza that waits for more before the parser sees it.
    var held = HeldBytes()
    /// What is read of a stanza that is skipped.
    var skipping: Skipping?

    /// Makes a framer at the start of a stream.
    package init(limits: StreamLimits = StreamLimits()) {
        machine = .allocate(capacity: 1)
        machine.initialize(to: FramerStateMachine(limits: limits))
        builder = .allocate(capacity: 1)
        builder.initialize(to: StanzaBuilder())
    }

    deinit {
        machine.deinitialize(count: 1)
        machine.deallocate()
        builder.deinitialize(count: 1)
        builder.deallocate()
    }

    /// The limits it holds the peer to.
    package var limits: StreamLimits { machine.pointee.limits }
    /// How far the current document has come.
    package var position: XMLStreamPosition { machine.pointee.position }
    /// Why the stream was given up; nothing is read after it.
    package var failure: XMLStreamError? { machine.pointee.failure }

    /// Bytes received and not yet part of an event.
    ///
    /// During an event: what follows it in the buffer being fed. After STARTTLS's `<proceed/>` anything but 0 was put
    /// injected before the handshake. Outside of an event: the bytes of what is unfinished.
    package var unreadBytes: Int {
        if let delivery = machine.pointee.delivery { return window.bytesLeft - delivery.end }
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
        precondition(machine.pointee.delivery == nil, "fed during an event")
        if let failure { throw failure }
        guard !machine.pointee.isFinal else { return }
        bytesReceived &+= UInt64(bytes.count)
        withoutActuallyEscaping(sink) { escaping in
            self.sink = escaping
            var rest = bytes
            while !rest.isEmpty, !machine.pointee.isFinal { rest = step(rest) }
            self.sink = nil
        }
        guard machine.pointee.isFinal else { return }
        if failure != nil { failedStanza = unfinishedName }
        skipping = nil
        giveUpParser()
        if let failure { throw failure }
    }

    /// Goes on with a new stream document, directly after the current event.
    ///
    /// The bytes that follow the event in the same buffer belong to the new document; after STARTTLS they must not be
    /// there (``unreadBytes``). Outside of an event, what is unfinished is given up.
    package func reset() {
        if machine.pointee.restart() == .forget { forgetDocument() }
    }

    /// Reads nothing more.
    package func stop() {
        if machine.pointee.stop() == .forget { giveUpParser() }
    }

    /// Gives back the memory that only a busy stream needs, where no stanza is unfinished.
    ///
    /// The next stanza makes a new parser, which takes about a microsecond.
    package func releaseMemory() {
        guard machine.pointee.canReleaseMemory else { return }
        giveUpParser()
        builder.pointee.reset(keepingStorage: false)
    }

    /// Whether there is a parser; for tests.
    var holdsParser: Bool { parser != nil }

    /// How many distinct names the parser holds on to.
    var heldNames: Int { parser?.nameCount ?? 0 }

    /// Bytes that the parser was given, each time anew while they are unfinished; for tests.
    var bytesLookedAt: Int { held.bytesLookedAt }

    // MARK: - One step

    /// Reads the beginning of `rest` and returns what remains of it.
    private func step(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        window.bytesLeft = rest.count
        let isBetweenStanzas = position == .betweenStanzas
        let start = begin(rest)
        guard !machine.pointee.isFinal, start < rest.count else {
            return UnsafeRawBufferPointer(rebasing: rest[rest.count...])
        }
        let rest = UnsafeRawBufferPointer(rebasing: rest[start...])
        window.bytesLeft = rest.count
        if skipping != nil { return skip(rest, from: 0) }
        if isBetweenStanzas, let next = readPlainStanza(rest) { return next }
        if held.waitsForRest, let next = readSplitStanza(rest) { return next }
        guard let parser = readyParser() else { return rest }

        window.slice = UnsafeRawBufferPointer(rebasing: rest.prefix(min(Self.sliceBytes, budget)))
        window.unfinishedStart = 0
        if machine.pointee.isParsing, holdsBackSlice(from: parser) {
            keepUnfinished()
            return UnsafeRawBufferPointer(rebasing: rest[window.slice.count...])
        }
        if machine.pointee.isParsing { parser.parse(window.slice) }
        window.base += window.slice.count
        return leaveParser(isWellFormed: parser.isWellFormed, rest)
    }

    /// Goes on when the parser has returned, or would have where none was needed.
    func leaveParser(isWellFormed: Bool, _ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        switch machine.pointee.parserReturned(isWellFormed: isWellFormed) {
        case .keepUnfinished:
            keepUnfinished()
            return UnsafeRawBufferPointer(rebasing: rest[window.slice.count...])
        case .skip:
            return beginSkipping(rest)
        case .replaceParser(let offset):
            giveUpParser()
            return UnsafeRawBufferPointer(rebasing: rest[offset...])
        case .beginDocument(let offset):
            forgetDocument()
            return UnsafeRawBufferPointer(rebasing: rest[offset...])
        case .finish:
            return rest
        }
    }

    /// Ignores the whitespace that may stand here, and returns where the parser or the skipper has to begin.
    private func begin(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch position {
        case .header, .stanza: return 0
        case .betweenStanzas: return beginStanza(in: bytes, at: 0)
        case .beforeHeader, .closed: break
        }
        let start = machine.pointee.ignoresWhitespace ? endOfWhitespace(in: bytes, from: 0) : 0
        if position == .closed { keepaliveBytes &+= UInt64(start) }
        if start < bytes.count { _ = machine.pointee.contentBegan(with: bytes[start]) }
        return start
    }

    /// Skips the whitespace between stanzas, and begins a stanza if its first byte is there.
    func beginStanza(in bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        let start = endOfWhitespace(in: bytes, from: offset)
        keepaliveBytes &+= UInt64(start - offset)
        guard start < bytes.count else { return start }
        if machine.pointee.contentBegan(with: bytes[start]) == .read { window.unfinishedStart = start }
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
            header.append(contentsOf: window.slice)
            machine.pointee.kept(bytes: header.count)
        case .stanza:
            builder.pointee.keepRaw(UnsafeRawBufferPointer(rebasing: window.slice[window.unfinishedStart...]))
            machine.pointee.kept(bytes: builder.pointee.size(knownBelow: limits.stanzaBytes))
        case .beforeHeader, .betweenStanzas, .closed:
            break
        }
    }
}
