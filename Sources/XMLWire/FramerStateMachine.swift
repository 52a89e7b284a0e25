/// The life of one peer's stream as bytes, as decisions only: each event returns what the framer has to do.
///
/// Events come from three sides: from the framer, as it goes through a buffer; from the parser's callbacks, while the parser
/// runs; and from the consumer, who may ask for a restart or a stop. Once the parser has been told to stop (`rejecting`,
/// `leaving`, `failed`), whatever it still reports is ignored.
///
/// Every state may go to `failed` unless it says otherwise. Outside of an event, ``restart()`` leads from every state but
/// `failed` and `stopped` to `beforeHeader`, and ``stop()`` to `stopped`.
struct FramerStateMachine: ~Copyable {
    /// Where the stream stands.
    enum State: Sendable, Hashable {
        /// No byte of the document has come. To `inHeader`.
        ///
        /// After a restart, whitespace may come first: it belongs to the document before.
        case beforeHeader(isRestart: Bool)
        /// Inside the XML declaration or the stream's start tag. To `delivering`.
        case inHeader
        /// The header is known and no stanza has begun. To `inStanza`; to `delivering` at the end of `<stream:stream/>`.
        case betweenStanzas
        /// A stanza has begun with a new parser, which is shown the stream's header first. To `inStanza`.
        case replayingHeader
        /// A stanza has begun, or the stream's end tag, with `depth` elements open. To `delivering` or `rejecting`.
        case inStanza(depth: Int)
        /// A stanza is over a bound, and the parser was told to stop. To `skipping`.
        case rejecting(SkippedStanza.Reason)
        /// A stanza is read to its end by the ``StanzaSkipper``, and discarded. To `delivering`.
        case skipping(SkippedStanza.Reason)
        /// The consumer has an event. To `betweenStanzas` or `leaving`; after a skipped stanza, when no parser runs, to
        /// `betweenStanzas`, `beforeHeader` or `stopped`. Never to `failed`.
        case delivering(Delivery)
        /// The parser was told to stop behind an event, whose last byte ends at `offset` of the slice. To what is in `next`:
        /// `betweenStanzas` (with another parser), `closed`, `beforeHeader` or `stopped`. Never to `failed`.
        case leaving(offset: Int, next: Successor)
        /// The peer has ended the stream; only whitespace may follow.
        case closed
        /// The consumer wants nothing more. Final; how far the document had come is kept.
        case stopped(XMLStreamPosition)
        /// The stream was given up. Final; how far the document had come is kept.
        case failed(XMLStreamError, at: XMLStreamPosition)
    }

    /// An event that the consumer has been given.
    struct Delivery: Sendable, Hashable {
        /// What was read whole.
        var event: Event
        /// Where in the slice, or in the rest of the buffer after a skipped stanza, the event's last byte ends.
        var end: Int
        /// What the consumer has asked for; the last request counts.
        var request = Request.none
    }

    /// The kinds of ``XMLStreamEvent``.
    enum Event: Sendable, Hashable, CaseIterable {
        case opened
        case stanza
        case skipped
        case closed

        /// How far the document has come behind it.
        var position: XMLStreamPosition { self == .closed ? .closed : .betweenStanzas }
    }

    /// What a consumer may ask for during an event.
    enum Request: Sendable, Hashable, CaseIterable {
        case none
        case restart
        case stop
    }

    /// What follows when the parser is left.
    enum Successor: Sendable, Hashable, CaseIterable {
        /// The same document, in another parser.
        case betweenStanzas
        /// Nothing but whitespace.
        case closed
        /// A new document, as the consumer asked.
        case beforeHeader
        /// Nothing, as the consumer asked.
        case stopped(at: XMLStreamPosition)

        static let allCases: [Successor] = [.betweenStanzas, .closed, .beforeHeader, .stopped(at: .betweenStanzas)]
    }

    /// What the peer is held to.
    let limits: StreamLimits
    /// Where the stream stands; set by the machine's own events only.
    var state = State.beforeHeader(isRestart: false)

    init(limits: StreamLimits) {
        self.limits = limits
    }

    // MARK: - What the state says

    /// How far the document has come.
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

    /// Why the stream was given up, or nil.
    var failure: XMLStreamError? {
        if case .failed(let error, _) = state { error } else { nil }
    }

    /// The event that the consumer has, or nil.
    var delivery: Delivery? {
        if case .delivering(let delivery) = state { delivery } else { nil }
    }

    /// Whether nothing more is read.
    var isFinal: Bool {
        switch state {
        case .stopped, .failed: true
        case .beforeHeader, .inHeader, .betweenStanzas, .replayingHeader, .inStanza, .rejecting, .skipping, .delivering,
            .leaving, .closed:
            false
        }
    }

    /// Whether the parser is to read on, and what it reports counts.
    var isParsing: Bool {
        switch state {
        case .inHeader, .betweenStanzas, .replayingHeader, .inStanza: true
        case .beforeHeader, .rejecting, .skipping, .delivering, .leaving, .closed, .stopped, .failed: false
        }
    }

    /// Whether character data belongs to an element; between stanzas there is only whitespace.
    var keepsText: Bool {
        if case .inStanza(let depth) = state { depth > 0 } else { false }
    }

    /// Whether whitespace at this place belongs to nothing.
    var ignoresWhitespace: Bool {
        switch state {
        case .beforeHeader(let isRestart): isRestart
        case .betweenStanzas, .closed: true
        case .inHeader, .replayingHeader, .inStanza, .rejecting, .skipping, .delivering, .leaving, .stopped, .failed:
            false
        }
    }

    /// Whether the memory of a busy stream can be given back: nothing is unfinished.
    var canReleaseMemory: Bool { state == .betweenStanzas || state == .closed }

    // MARK: - The buffer

    /// What to do with the first byte that is not ignored.
    enum ContentAction: Sendable, Hashable {
        /// Read from it on.
        case read
        /// The stream has failed.
        case fail
    }

    /// A byte has come that is not ignored.
    mutating func contentBegan(with byte: UInt8) -> ContentAction {
        switch state {
        case .beforeHeader:
            switch byte {
            case 0x15, 0x16: state = .failed(XMLStreamError(.tlsRecord), at: position)
            // No UTF-8 text begins so; UTF-16 and UTF-32 do.
            case 0x00, 0xFE, 0xFF: state = .failed(XMLStreamError(.badEncoding), at: position)
            default: state = .inHeader
            }
        case .betweenStanzas:
            if byte == UInt8(ascii: "<") {
                state = .inStanza(depth: 0)
            } else {
                state = .failed(XMLStreamError(.textAtStreamLevel), at: .betweenStanzas)
            }
        case .closed:
            state = .failed(XMLStreamError(.notWellFormed), at: .closed)
        case .inHeader, .replayingHeader, .inStanza, .rejecting, .skipping, .delivering, .leaving, .stopped, .failed:
            break
        }
        return failure == nil ? .read : .fail
    }

    /// What a new parser needs first.
    enum ParserAction: Sendable, Hashable {
        /// Show it the stream's header, then call ``headerReplayed()``.
        case replayHeader
        /// Nothing: it begins with the document.
        case none
    }

    /// A parser was made.
    mutating func parserMade() -> ParserAction {
        guard case .inStanza = state else { return .none }
        state = .replayingHeader
        return .replayHeader
    }

    /// The parser has read the header again.
    mutating func headerReplayed() {
        if state == .replayingHeader { state = .inStanza(depth: 0) }
    }

    /// What to do when the parser has read the slice.
    enum ReturnAction: Sendable, Hashable {
        /// Keep what is unfinished, then call ``kept(bytes:)``, and read on behind the slice.
        case keepUnfinished
        /// Read the stanza from its first byte with a ``StanzaSkipper``, then call ``skippingBegan(with:)``.
        case skip
        /// Give the parser up and read on behind this offset.
        case replaceParser(from: Int)
        /// Give everything up and begin a new document behind this offset.
        case beginDocument(from: Int)
        /// Nothing is read any more.
        case finish
    }

    /// The parser has returned.
    mutating func parserReturned(isWellFormed: Bool) -> ReturnAction {
        switch state {
        case .rejecting:
            return .skip
        case .leaving(let offset, let next):
            enter(next)
            if case .stopped = next { return .finish }
            return next == .beforeHeader ? .beginDocument(from: offset) : .replaceParser(from: offset)
        case .inHeader, .betweenStanzas, .replayingHeader, .inStanza:
            guard !isWellFormed else { return .keepUnfinished }
            state = .failed(XMLStreamError(.notWellFormed), at: position)
            return .finish
        case .beforeHeader, .skipping, .delivering, .closed, .stopped, .failed:
            return .finish
        }
    }

    /// So many bytes are held of an unfinished header, or of an unfinished stanza (by its size).
    mutating func kept(bytes: Int) {
        switch state {
        case .inHeader where bytes >= limits.headerBytes:
            state = .failed(XMLStreamError(.limit(.headerBytes)), at: .header)
        case .inStanza where bytes >= limits.stanzaBytes:
            state = .failed(XMLStreamError(.limit(.stanzaBytes)), at: .stanza)
        case .beforeHeader, .inHeader, .betweenStanzas, .replayingHeader, .inStanza, .rejecting, .skipping, .delivering,
            .leaving, .closed, .stopped, .failed:
            break
        }
    }
}
