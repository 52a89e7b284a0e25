/// The life of a peer's byte stream as pure decisions: each event returns the framer's action.
///
/// Events come from three sides: the framer, as it goes through a buffer; the parser's callbacks, while the parser
/// runs; and the consumer, who may ask for a restart or a stop. Once the parser has been told to stop (`rejecting`,
/// `leaving`, `failed`), its further reports are ignored.
///
/// Every state may go to `failed` unless it says otherwise. Outside an event, ``restart()`` leads from every state but
/// `failed` and `stopped` to `beforeHeader`, and ``stop()`` to `stopped`.
struct FramerStateMachine: ~Copyable {
    enum State: Hashable {
        /// No byte of the document has come. To `inHeader`.
        ///
        /// After a restart, whitespace may come first: it belongs to the previous document.
        case beforeHeader(isRestart: Bool)
        /// Inside the XML declaration or the stream's start tag. To `delivering`.
        case inHeader
        /// The header is complete and no stanza has begun. To `inStanza`; to `delivering` at the end of
        /// `<stream:stream/>`.
        case betweenStanzas
        /// A stanza has begun with a new parser, which first reads the stream's header again. To `inStanza`.
        case replayingHeader
        /// A stanza has begun, or the stream's end tag, with `depth` elements open. To `delivering` or `rejecting`.
        case inStanza(depth: Int)
        /// A stanza exceeds a limit, and the parser was told to stop, or is left. To `skipping`.
        case rejecting(SkippedStanza.Reason)
        /// The ``StanzaSkipper`` reads a stanza to its end, to be discarded. To `delivering`.
        case skipping(SkippedStanza.Reason)
        /// The consumer has an event. To `betweenStanzas` or `leaving`; after a skipped stanza, when no parser runs, to
        /// `betweenStanzas`, `beforeHeader` or `stopped`. Never to `failed`.
        case delivering(Delivery)
        /// The parser was told to stop after an event, whose last byte ends at `offset` of the slice. To the state in
        /// `next`: `betweenStanzas` (with another parser), `closed`, `beforeHeader` or `stopped`. Never to `failed`.
        case leaving(offset: Int, next: Successor)
        /// The peer has ended the stream; only whitespace may follow.
        case closed
        /// The consumer has stopped. Final; keeps the position reached.
        case stopped(XMLStreamPosition)
        /// The stream was given up. Final; keeps the position reached.
        case failed(XMLStreamError, at: XMLStreamPosition)
    }

    struct Delivery: Hashable {
        var event: Event
        /// The end of the event's last byte in the slice or, after a skipped stanza, in the rest of the buffer.
        var end: Int
        /// The consumer's last request.
        var request = Request.none
    }

    enum Event: CaseIterable {
        case opened, stanza, skipped, closed

        /// The position in the document after the event.
        var position: XMLStreamPosition { self == .closed ? .closed : .betweenStanzas }
    }

    enum Request { case none, restart, stop }

    enum Successor: Hashable {
        /// The same document, with another parser.
        case betweenStanzas
        case closed
        /// A new document, as requested by the consumer.
        case beforeHeader
        /// Stopped, as requested by the consumer.
        case stopped(at: XMLStreamPosition)
    }

    let limits: StreamLimits
    /// Set by the machine's own events only.
    var state = State.beforeHeader(isRestart: false)

    // MARK: - State

    var position: XMLStreamPosition {
        switch state {
        case .beforeHeader: .beforeHeader
        case .inHeader: .header
        case .betweenStanzas: .betweenStanzas
        case .replayingHeader, .inStanza, .rejecting, .skipping: .stanza
        case .delivering(let delivery): delivery.event.position
        case .leaving(_, let next):
            switch next {
            case .betweenStanzas, .beforeHeader: .betweenStanzas
            case .closed: .closed
            case .stopped(let position): position
            }
        case .closed: .closed
        case .stopped(let position), .failed(_, let position): position
        }
    }

    /// Why the stream was given up, if it was.
    var failure: XMLStreamError? {
        if case .failed(let error, _) = state { error } else { nil }
    }

    /// The event in the consumer's hands, if any.
    var delivery: Delivery? {
        if case .delivering(let delivery) = state { delivery } else { nil }
    }

    var isFinal: Bool {
        switch state {
        case .stopped, .failed: true
        default: false
        }
    }

    /// Whether the parser is to continue and its reports count.
    var isParsing: Bool {
        switch state {
        case .inHeader, .betweenStanzas, .replayingHeader, .inStanza: true
        default: false
        }
    }

    /// Whether character data belongs to an element; between stanzas there is only whitespace.
    var keepsText: Bool {
        if case .inStanza(let depth) = state { depth > 0 } else { false }
    }

    /// Whether whitespace here belongs to nothing.
    var ignoresWhitespace: Bool {
        switch state {
        case .beforeHeader(let isRestart): isRestart
        case .betweenStanzas, .closed: true
        default: false
        }
    }

    /// Whether nothing is unfinished, so that the memory of a busy stream can be released.
    var canReleaseMemory: Bool { state == .betweenStanzas || state == .closed }

    // MARK: - The buffer

    enum ContentAction { case read, fail }

    mutating func contentBegan(with byte: UInt8) -> ContentAction {
        switch state {
        case .beforeHeader:
            switch byte {
            case 0x15, 0x16: state = .failed(XMLStreamError(.tlsRecord), at: position)
            // The first bytes of UTF-16 and UTF-32, not of UTF-8.
            case 0x00, 0xFE, 0xFF: state = .failed(XMLStreamError(.badEncoding), at: position)
            default: state = .inHeader
            }
        case .betweenStanzas where byte == UInt8(ascii: "<"): state = .inStanza(depth: 0)
        case .betweenStanzas: state = .failed(XMLStreamError(.textAtStreamLevel), at: .betweenStanzas)
        case .closed: state = .failed(XMLStreamError(.notWellFormed), at: .closed)
        default: break
        }
        return failure == nil ? .read : .fail
    }

    /// Handles a new parser; returns whether to let it read the stream's header, and then call ``headerReplayed()``.
    mutating func parserMade() -> Bool {
        guard case .inStanza = state else { return false }
        state = .replayingHeader
        return true
    }

    mutating func headerReplayed() {
        if state == .replayingHeader { state = .inStanza(depth: 0) }
    }

    enum ReturnAction: Equatable {
        /// Keep the unfinished part, then call ``kept(bytes:)``, and continue after the slice.
        case keepUnfinished
        /// Read the stanza from its first byte with a ``StanzaSkipper``, then call ``skippingBegan(with:)``.
        case skip
        /// Drop the parser and continue at this offset.
        case replaceParser(from: Int)
        /// Drop everything and begin a new document at this offset.
        case beginDocument(from: Int)
        case finish
    }

    mutating func parserReturned(isWellFormed: Bool) -> ReturnAction {
        switch state {
        case .rejecting: return .skip
        case .leaving(let offset, let next):
            enter(next)
            if case .stopped = next { return .finish }
            return next == .beforeHeader ? .beginDocument(from: offset) : .replaceParser(from: offset)
        case _ where isParsing:
            guard !isWellFormed else { return .keepUnfinished }
            state = .failed(XMLStreamError(.notWellFormed), at: position)
            return .finish
        default: return .finish
        }
    }

    enum KeptAction {
        case readOn
        /// Read the stanza from its first byte with a ``StanzaSkipper``, then call ``skippingBegan(with:)``.
        case skip
    }

    /// Handles the size of the kept part of an unfinished header or stanza.
    mutating func kept(bytes: Int) -> KeptAction {
        switch state {
        case .inHeader where bytes >= limits.headerBytes:
            state = .failed(XMLStreamError(.limit(.headerBytes)), at: .header)
        case .inStanza where bytes >= limits.stanzaBytes && limits.skipsLongStanzas:
            state = .rejecting(.length)
            return .skip
        case .inStanza where bytes >= limits.stanzaBytes:
            state = .failed(XMLStreamError(.limit(.stanzaBytes)), at: .stanza)
        default: break
        }
        return .readOn
    }

    // MARK: - The parser's reports

    enum StartTagAction {
        /// Store the stream's own, then call ``headerEnded(bytes:isUTF8:isStream:at:)``.
        case storeHeader
        case storeElement, stopParser, ignore
    }

    /// Handles a start tag, after `elements` of its stanza.
    mutating func startTag(attributes: Int, namespaces: Int, elements: Int) -> StartTagAction {
        switch state {
        case .inHeader:
            if attributes > limits.attributes { return stop(.limit(.attributes)) }
            if namespaces > limits.namespaces { return stop(.limit(.namespaces)) }
            return .storeHeader
        case .inStanza(let depth):
            if attributes > limits.attributes {
                state = .rejecting(.attributes)
            } else if namespaces > limits.namespaces {
                state = .rejecting(.namespaces)
            } else if depth >= limits.depth {
                state = .rejecting(.depth)
            } else if elements >= limits.elements {
                state = .rejecting(.elements)
            } else {
                state = .inStanza(depth: depth + 1)
                return .storeElement
            }
            return .stopParser
        default: return .ignore
        }
    }

    private mutating func stop(_ code: XMLStreamError.Code) -> StartTagAction {
        state = .failed(XMLStreamError(code), at: position)
        return .stopParser
    }

    enum EndTagAction {
        case closeElement
        /// Close the stanza, then call ``stanzaEnded(at:size:)``.
        case finishStanza
        /// The stream's own: call ``documentEnded(at:)``.
        case finishDocument
        case ignore
    }

    mutating func endTag() -> EndTagAction {
        switch state {
        case .inStanza(let depth) where depth > 1:
            state = .inStanza(depth: depth - 1)
            return .closeElement
        case .inStanza(depth: 1): return .finishStanza
        // `</stream:stream>` begins like a stanza; `<stream:stream/>` ends directly after its header.
        case .inStanza, .betweenStanzas: return .finishDocument
        default: return .ignore
        }
    }

    enum SectionAction { case store, stopParser, ignore }

    /// Handles a CDATA section or a part of one.
    mutating func section() -> SectionAction {
        guard isParsing else { return .ignore }
        if keepsText { return .store }
        state = .failed(XMLStreamError(.textAtStreamLevel), at: position)
        return .stopParser
    }

    enum StopAction { case stopParser, ignore }

    /// Handles an error found by the parser, or by the framer while the parser is in use.
    ///
    /// Only the first counts, and none after the parser was told to stop.
    @discardableResult
    mutating func fail(_ error: XMLStreamError) -> StopAction {
        guard isParsing else { return .ignore }
        state = .failed(error, at: position)
        return .stopParser
    }

    mutating func reject(_ reason: SkippedStanza.Reason) -> StopAction {
        guard case .inStanza = state else { return .ignore }
        state = .rejecting(reason)
        return .stopParser
    }

    /// Handles a recoverable error of the parser, or one of its own limits.
    ///
    /// Such a stanza is well-formed XML, which a server may pass on from anybody: no reason to end the stream.
    mutating func stanzaFailed(_ reason: SkippedStanza.Reason, parserCode: Int32) -> StopAction {
        if case .inStanza = state { return reject(reason) }
        fail(XMLStreamError(.notWellFormed, parserCode: parserCode))
        // The parser goes on or ends by itself.
        return .ignore
    }
}
