/// Cuts an XMPP stream into stanzas: bytes in, ``XMLStreamEvent`` out, however the bytes are cut.
///
/// One framer reads one connection, over all its stream documents (a new one begins after STARTTLS and SASL), on one
/// event loop. Input that XMPP forbids and a stanza that is too long end the stream; a stanza that is too deep or too
/// wide, or that breaks the rules of namespaces, is skipped.
///
/// Each stanza is read by a single reader, from its `<` to its `>`: by a ``PlainStanzaReader`` if it is plain and
/// complete in the buffer, else by libxml2. A skipped stanza is read by a ``StanzaSkipper``, from its first byte.
package final class XMLFramer {
    /// The part of a buffer that the parser gets at once.
    struct Window {
        /// The bytes given to `parse`; valid while it runs.
        var slice = UnsafeRawBufferPointer(start: nil, count: 0)
        /// The number of bytes that the parser had been given before `slice`.
        var base = 0
        /// The offset in `slice` of the unfinished header or stanza.
        var unfinishedStart = 0
        /// The bytes of the current buffer from the start of `slice` on.
        var bytesLeft = 0
    }

    /// The most bytes that the parser gets at once, which bounds its buffers, and the attributes that it compares
    /// before we hear of them.
    private static let sliceBytes = 4 * 1024
    /// A parser is replaced after the stanza with which it has read this much.
    ///
    /// libxml2 keeps every distinct name for the life of a context, and refuses to continue at 10 MB of them. Since a
    /// stanza is bounded, so is what one context gathers, and a replacement never has to fall inside one.
    static let parserBytes = 512 * 1024
    /// A parser is also replaced after a stanza with which it keeps this many names, at some 60 bytes each.
    static let parserNames = 8 * 1024

    /// The stanza during which the stream was given up; nil if that was outside stanzas.
    package private(set) var failedStanza: StanzaName?
    /// All bytes received, keepalives included.
    package private(set) var bytesReceived: UInt64 = 0

    /// All decisions about the stream, behind a pointer to avoid exclusivity checks; freed in `deinit`.
    let machine: UnsafeMutablePointer<FramerStateMachine>
    /// The stanza being read, freed in `deinit`; never accessed inside its own methods, which don't call out.
    let builder: UnsafeMutablePointer<StanzaBuilder>
    /// The start tag of the stream, verbatim, for new parsers to read first.
    var header: [UInt8] = []
    /// The default namespace of the stream; nil if plain stanzas can't be read without the parser.
    var plainNamespace: [UInt8]?
    /// Whether plain stanzas are read without the parser; tests compare both ways.
    var readsPlainStanzas = true
    var sink: ((XMLStreamEvent) -> Void)?
    var parser: PushParser?
    var window = Window()
    /// The end of an unfinished stanza, held back from the parser.
    var held = HeldBytes()
    var skipping: Skipping?

    package init(limits: StreamLimits = StreamLimits()) {
        machine = .allocate(capacity: 1)
        machine.initialize(to: FramerStateMachine(limits: limits))
        builder = .allocate(capacity: 1)
        builder.initialize(to: StanzaBuilder(limits: limits))
    }

    deinit {
        machine.deinitialize(count: 1)
        machine.deallocate()
        builder.deinitialize(count: 1)
        builder.deallocate()
    }

    package var limits: StreamLimits { machine.pointee.limits }
    package var position: XMLStreamPosition { machine.pointee.position }
    /// Why the stream was given up; nothing is read after it.
    package var failure: XMLStreamError? { machine.pointee.failure }

    /// The bytes received that are not part of an event yet.
    ///
    /// During an event: those after it in the current buffer. After STARTTLS's `<proceed/>` anything but 0 was injected
    /// before the handshake. Outside an event: those of the unfinished part.
    package var unreadBytes: Int {
        if let delivery = machine.pointee.delivery { return window.bytesLeft - delivery.end }
        if let skipping { return skipping.byteCount }
        return position == .header ? header.count : builder.pointee.raw.count
    }

    /// Reads a buffer and hands each event over as it is complete.
    ///
    /// During an event ``reset()``, ``stop()`` and ``unreadBytes`` may be used; `feed` may not.
    ///
    /// - Throws: the stream's failure, now and on every later call. Events before it were handed over.
    package func feed(_ bytes: UnsafeRawBufferPointer, _ sink: (XMLStreamEvent) -> Void) throws(XMLStreamError) {
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

    /// Begins a new stream document after the current event, of which the rest of the buffer is part.
    ///
    /// After STARTTLS there must be no rest (``unreadBytes``). Outside an event, the unfinished part is dropped.
    package func reset() {
        if machine.pointee.restart() == .forget { forgetDocument() }
    }

    package func stop() {
        if machine.pointee.stop() == .forget { giveUpParser() }
    }

    /// Releases the memory that only a busy stream needs, unless a stanza is unfinished.
    package func releaseMemory() {
        guard machine.pointee.canReleaseMemory else { return }
        giveUpParser()
        builder.pointee.reset(keepingStorage: false)
    }

    var holdsParser: Bool { parser != nil }

    // MARK: - One step

    /// Reads the start of `rest` and returns the remainder.
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
        if machine.pointee.isParsing, holdsBackSlice(from: parser) { return keepUnfinished(rest) }
        if machine.pointee.isParsing { parser.parse(window.slice) }
        window.base += window.slice.count
        return leaveParser(isWellFormed: parser.isWellFormed, rest)
    }

    /// Continues after the parser has returned, or after a stanza that needed none.
    private func leaveParser(isWellFormed: Bool, _ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        switch machine.pointee.parserReturned(isWellFormed: isWellFormed) {
        case .keepUnfinished: return keepUnfinished(rest)
        case .skip: return beginSkipping(rest, from: window.unfinishedStart)
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

    /// Skips ignored whitespace, and returns where the parser or the skipper must begin.
    private func begin(_ bytes: UnsafeRawBufferPointer) -> Int {
        switch position {
        case .header, .stanza: return 0
        case .betweenStanzas: return beginStanza(in: bytes, at: 0)
        case .beforeHeader, .closed: break
        }
        let start = machine.pointee.ignoresWhitespace ? endOfWhitespace(in: bytes, from: 0) : 0
        if start < bytes.count { _ = machine.pointee.contentBegan(with: bytes[start]) }
        return start
    }

    /// Skips the whitespace between stanzas (RFC 6120 §4.6.1), and begins a stanza if its first byte has come.
    func beginStanza(in bytes: UnsafeRawBufferPointer, at offset: Int) -> Int {
        let start = endOfWhitespace(in: bytes, from: offset)
        guard start < bytes.count else { return start }
        if machine.pointee.contentBegan(with: bytes[start]) == .read { window.unfinishedStart = start }
        return start
    }

    private func endOfWhitespace(in bytes: UnsafeRawBufferPointer, from offset: Int) -> Int {
        var offset = offset
        while offset < bytes.count, StanzaSkipper.isSpace(bytes[offset]) { offset += 1 }
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

    /// Copies the unfinished end of the slice, checks its size against the limits, and returns the rest of the buffer.
    private func keepUnfinished(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let end = window.slice.count
        var action = FramerStateMachine.KeptAction.readOn
        switch position {
        case .header:
            header.append(contentsOf: window.slice)
            action = machine.pointee.kept(bytes: header.count)
        case .stanza:
            builder.pointee.keepRaw(UnsafeRawBufferPointer(rebasing: window.slice[window.unfinishedStart...]))
            action = machine.pointee.kept(bytes: builder.pointee.size(knownBelow: limits.stanzaBytes))
        case .beforeHeader, .betweenStanzas, .closed: break
        }
        switch action {
        case .readOn: return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .skip: return beginSkipping(rest, from: end)
        }
    }

    // MARK: - Plain stanzas

    /// A stanza waits for the next buffer if this one has fewer bytes of it.
    private static let splitBytes = 4 * 1024

    /// Reads the stanza at the start of `rest`, and returns what follows; nil if the parser must read it.
    ///
    /// A stanza that is plain so far but continues after the buffer is kept for ``readSplitStanza(_:)``: the last of
    /// each read of a busy connection is such, and a parser made for it costs as much as several stanzas.
    private func readPlainStanza(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        guard readsPlainStanzas, let plainNamespace else { return nil }
        let end: Int
        do throws(PlainStanzaReader.Refusal) {
            end = try builder.pointee.readPlain(rest, inherited: plainNamespace)
        } catch {
            guard error == .unfinished, rest.count < min(Self.splitBytes, limits.stanzaBytes) else { return nil }
            builder.pointee.keepRaw(rest)
            held.waitsForRest = true
            return UnsafeRawBufferPointer(rebasing: rest[rest.count...])
        }
        return deliverPlainStanza(endingAt: end, in: rest)
    }

    /// Reads a stanza that began in the previous buffer; nil if the parser must, which was given the waiting bytes.
    ///
    /// At most once for each: input in small pieces is the parser's, which reads each byte once.
    private func readSplitStanza(_ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        held.waitsForRest = false
        if let plainNamespace {
            let more = UnsafeRawBufferPointer(rebasing: rest.prefix(Self.splitBytes))
            let end = try? builder.pointee.readPlain(followedBy: more, inherited: plainNamespace)
            if let end { return deliverPlainStanza(endingAt: end, in: rest) }
        }
        guard let parser = readyParser() else { return rest }
        // No stanza ends in them, else the reader would have found its end.
        held.count = builder.pointee.raw.count
        parseHeldBytes(with: parser)
        return nil
    }

    private func deliverPlainStanza(endingAt end: Int, in rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        // Never over the limit: no more was read.
        guard machine.pointee.stanzaEnded(at: end, size: 0) == .deliver else { return rest }
        sink?(.stanza(builder.pointee.exchangeContents()))
        takeBackContents()
        switch machine.pointee.eventHandled() {
        case .readOn(let end): return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .stopParser: return leaveParser(isWellFormed: true, rest)
        }
    }

    // MARK: - Skipped stanzas

    struct Skipping {
        var skipper = StanzaSkipper()
        var size = StanzaSize()
        var byteCount = 0
        let id: [UInt8]?

        init(id: [UInt8]?) { self.id = id }

        /// Reads the next bytes as ``StanzaSkipper/read(_:)`` does, and measures them.
        mutating func read(_ bytes: UnsafeRawBufferPointer) -> StanzaSkipper.Outcome {
            let outcome = skipper.read(bytes)
            let length = if case .ended(let end) = outcome { end } else { bytes.count }
            size.add(UnsafeRawBufferPointer(rebasing: bytes[..<length]))
            byteCount += length
            return outcome
        }
    }

    /// The unfinished stanza's name; nil outside stanzas.
    private var unfinishedName: StanzaName? {
        guard position == .stanza else { return nil }
        if let skipping { return skipping.skipper.name }
        var start = Array(builder.pointee.raw.prefix(StanzaName.sufficientBytes))
        if start.count < StanzaName.sufficientBytes, window.unfinishedStart < window.slice.count {
            start += window.slice[window.unfinishedStart...].prefix(StanzaName.sufficientBytes)
        }
        return StanzaName(startTag: start)
    }

    /// Skips the stanza that the parser was reading, from its first byte on, of which the kept part comes before `start`;
    /// returns what remains of the buffer.
    private func beginSkipping(_ rest: UnsafeRawBufferPointer, from start: Int) -> UnsafeRawBufferPointer {
        giveUpParser()
        var begun = Skipping(id: builder.pointee.stanzaID())
        let outcome = builder.pointee.raw.withUnsafeBytes { begun.read($0) }
        builder.pointee.reset(keepingStorage: false)
        skipping = begun
        guard machine.pointee.skippingBegan(with: outcome) == .more else { return rest }
        return skip(rest, from: start)
    }

    /// Reads more of the skipped stanza, and hands it over at its end; returns the rest of the buffer.
    private func skip(_ rest: UnsafeRawBufferPointer, from start: Int) -> UnsafeRawBufferPointer {
        let end = UnsafeRawBufferPointer(rebasing: rest[rest.count...])
        guard let outcome = skipping?.read(UnsafeRawBufferPointer(rebasing: rest[start...])), let read = skipping
        else { return end }
        let size = limits.skipsLongStanzas ? read.skipper.capacity : read.size.bytes
        guard case .deliver(let reason) = machine.pointee.skipped(outcome, size: size, start: start) else { return end }
        skipping = nil
        let (name, count) = (read.skipper.name, read.byteCount)
        sink?(.skipped(SkippedStanza(reason: reason, name: name, byteCount: count, id: read.id)))
        switch machine.pointee.skippedStanzaHandled() {
        case .readOn(let end):
            return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .beginDocument(let end):
            forgetDocument()
            return UnsafeRawBufferPointer(rebasing: rest[end...])
        case .finish: return end
        }
    }
}
