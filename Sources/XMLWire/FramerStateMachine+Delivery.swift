/// Events for the consumer, and what the consumer asks for.
extension FramerStateMachine {
    /// What to do when something has been read whole.
    enum DeliverAction: Sendable, Hashable {
        /// Hand the event over, then call ``eventHandled(replacesParser:)``.
        case deliver
        /// The stream has failed: stop the parser.
        case stopParser
    }

    /// What was found in a stream header.
    struct Header: Sendable, Hashable {
        /// Its bytes, up to and without the `>`.
        var bytes: Int
        /// Whether the XML declaration leaves the encoding open or says UTF-8.
        var isUTF8: Bool
        /// Whether the root is a stream's.
        var isStream: Bool
    }

    /// The stream's start tag has been read whole.
    mutating func headerEnded(_ header: Header, at end: Int) -> DeliverAction {
        guard state == .inHeader else { return .stopParser }
        if !header.isUTF8 {
            state = .failed(XMLStreamError(.badEncoding), at: .header)
        } else if header.bytes >= limits.headerBytes {
            state = .failed(XMLStreamError(.limit(.headerBytes)), at: .header)
        } else if !header.isStream {
            state = .failed(XMLStreamError(.invalidNamespace), at: .header)
        } else {
            state = .delivering(Delivery(event: .opened, end: end))
            return .deliver
        }
        return .stopParser
    }

    /// A stanza of this size has been read whole.
    mutating func stanzaEnded(at end: Int, size: Int) -> DeliverAction {
        guard case .inStanza = state else { return .stopParser }
        guard size <= limits.stanzaBytes else {
            state = .failed(XMLStreamError(.limit(.stanzaBytes)), at: .stanza)
            return .stopParser
        }
        state = .delivering(Delivery(event: .stanza, end: end))
        return .deliver
    }

    /// The stream's end tag has been read.
    mutating func documentEnded(at end: Int) -> DeliverAction {
        switch state {
        case .inStanza, .betweenStanzas:
            state = .delivering(Delivery(event: .closed, end: end))
            return .deliver
        case .beforeHeader, .inHeader, .replayingHeader, .rejecting, .skipping, .delivering, .leaving, .closed,
            .stopped, .failed:
            return .stopParser
        }
    }

    // MARK: - Skipped stanzas

    /// What to do when a part of a skipped stanza has been read.
    enum SkipAction: Sendable, Hashable {
        /// Read more of it.
        case more
        /// Hand the event over, then call ``skippedStanzaHandled()``.
        case deliver(SkippedStanza.Reason)
        /// The stream has failed.
        case fail
    }

    /// The bytes that the parser was given of a rejected stanza have been read again, to be skipped.
    mutating func skippingBegan(with outcome: StanzaSkipper.Outcome) -> SkipAction {
        guard case .rejecting(let reason) = state else { return .fail }
        switch outcome {
        case .more:
            state = .skipping(reason)
            return .more
        // It has gone on behind its end, which no stanza does that is well-formed.
        case .ended: state = .failed(XMLStreamError(.notWellFormed), at: .stanza)
        case .failed(let code): state = .failed(XMLStreamError(code), at: .stanza)
        }
        return .fail
    }

    /// More of a skipped stanza has been read from `start` on, which has this size by now.
    mutating func skipped(_ outcome: StanzaSkipper.Outcome, size: Int, start: Int) -> SkipAction {
        guard case .skipping(let reason) = state else { return .fail }
        switch outcome {
        case .more where size < limits.stanzaBytes:
            return .more
        case .ended(let end) where size <= limits.stanzaBytes:
            state = .delivering(Delivery(event: .skipped, end: start + end))
            return .deliver(reason)
        case .failed(let code):
            state = .failed(XMLStreamError(code), at: .stanza)
        case .more, .ended:
            state = .failed(XMLStreamError(.limit(.stanzaBytes)), at: .stanza)
        }
        return .fail
    }

    // MARK: - After an event

    /// What to do when the consumer has handled an event of the parser's.
    enum HandledAction: Sendable, Hashable {
        /// Look for the next stanza from this offset of the slice on.
        case readOn(from: Int)
        /// Stop the parser; ``parserReturned(isWellFormed:)`` says how it goes on.
        case stopParser
    }

    /// The consumer has handled a header, a stanza or the stream's end; `replacesParser` where the parser holds on to too
    /// much.
    mutating func eventHandled(replacesParser: Bool = false) -> HandledAction {
        guard case .delivering(let delivery) = state else { return .stopParser }
        let next: Successor
        switch delivery.request {
        case .restart: next = .beforeHeader
        case .stop: next = .stopped(at: delivery.event.position)
        case .none where delivery.event == .closed: next = .closed
        case .none where replacesParser: next = .betweenStanzas
        case .none:
            state = .betweenStanzas
            return .readOn(from: delivery.end)
        }
        state = .leaving(offset: delivery.end, next: next)
        return .stopParser
    }

    /// What to do when the consumer has handled a skipped stanza.
    enum SkippedHandledAction: Sendable, Hashable {
        /// Read on from this offset of the buffer.
        case readOn(from: Int)
        /// Forget the document and begin a new one from this offset of the buffer on.
        case beginDocument(from: Int)
        /// Nothing is read any more.
        case finish
    }

    /// The consumer has handled a skipped stanza.
    mutating func skippedStanzaHandled() -> SkippedHandledAction {
        guard case .delivering(let delivery) = state else { return .finish }
        switch delivery.request {
        case .none:
            state = .betweenStanzas
            return .readOn(from: delivery.end)
        case .restart:
            state = .beforeHeader(isRestart: true)
            return .beginDocument(from: delivery.end)
        case .stop:
            state = .stopped(.betweenStanzas)
            return .finish
        }
    }

    /// Goes where the parser was left for.
    mutating func enter(_ next: Successor) {
        state =
            switch next {
            case .betweenStanzas: .betweenStanzas
            case .closed: .closed
            case .beforeHeader: .beforeHeader(isRestart: true)
            case .stopped(let position): .stopped(position)
            }
    }

    // MARK: - Requests

    /// What to do at a request.
    enum RequestAction: Sendable, Hashable {
        /// Forget what is unfinished; it is done at once.
        case forget
        /// Nothing now: it is done when the event has been handled, or there is nothing left to do.
        case ignore
    }

    /// The consumer goes on with a new document.
    mutating func restart() -> RequestAction {
        request(.restart, then: .beforeHeader)
    }

    /// The consumer wants nothing more.
    mutating func stop() -> RequestAction {
        request(.stop, then: .stopped(at: position))
    }

    private mutating func request(_ request: Request, then next: Successor) -> RequestAction {
        switch state {
        case .delivering(var delivery):
            delivery.request = request
            state = .delivering(delivery)
            return .ignore
        case .stopped, .failed:
            return .ignore
        case .beforeHeader, .inHeader, .betweenStanzas, .replayingHeader, .inStanza, .rejecting, .skipping, .leaving,
            .closed:
            enter(next)
            return .forget
        }
    }
}
