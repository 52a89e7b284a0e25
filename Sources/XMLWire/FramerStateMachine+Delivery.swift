/// Events for the consumer, and the consumer's requests.
extension FramerStateMachine {
    enum DeliverAction {
        /// Hand the event over, then call ``eventHandled(replacesParser:)``.
        case deliver
        case stopParser
    }

    /// Handles the complete start tag of the stream, of so many bytes without the `>`.
    ///
    /// It is UTF-8 if the XML declaration gives no other encoding, and a stream if the root is one.
    mutating func headerEnded(bytes: Int, isUTF8: Bool, isStream: Bool, at end: Int) -> DeliverAction {
        guard state == .inHeader else { return .stopParser }
        if !isUTF8 {
            state = .failed(XMLStreamError(.badEncoding), at: .header)
        } else if bytes >= limits.headerBytes {
            state = .failed(XMLStreamError(.limit(.headerBytes)), at: .header)
        } else if !isStream {
            state = .failed(XMLStreamError(.invalidNamespace), at: .header)
        } else {
            state = .delivering(Delivery(event: .opened, end: end))
            return .deliver
        }
        return .stopParser
    }

    mutating func stanzaEnded(at end: Int, size: Int) -> DeliverAction {
        guard case .inStanza = state else { return .stopParser }
        guard size <= limits.stanzaBytes else {
            state = .failed(XMLStreamError(.limit(.stanzaBytes)), at: .stanza)
            return .stopParser
        }
        state = .delivering(Delivery(event: .stanza, end: end))
        return .deliver
    }

    mutating func documentEnded(at end: Int) -> DeliverAction {
        switch state {
        case .inStanza, .betweenStanzas:
            state = .delivering(Delivery(event: .closed, end: end))
            return .deliver
        default: return .stopParser
        }
    }

    // MARK: - Skipped stanzas

    enum SkipAction: Equatable {
        case more, fail
        /// Hand the event over, then call ``skippedStanzaHandled()``.
        case deliver(SkippedStanza.Reason)
    }

    /// Handles the second reading of a rejected stanza's bytes that the parser had been given.
    mutating func skippingBegan(with outcome: StanzaSkipper.Outcome) -> SkipAction {
        guard case .rejecting(let reason) = state else { return .fail }
        switch outcome {
        case .more:
            state = .skipping(reason)
            return .more
        // It goes on after its end, which no well-formed stanza does.
        case .ended: state = .failed(XMLStreamError(.notWellFormed), at: .stanza)
        case .failed(let code): state = .failed(XMLStreamError(code), at: .stanza)
        }
        return .fail
    }

    /// Handles more of a skipped stanza, read from `start` on, which now has this size, or this memory.
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

    enum HandledAction: Equatable {
        /// Look for the next stanza from this offset of the slice on.
        case readOn(from: Int)
        /// Stop the parser; ``parserReturned(isWellFormed:)`` decides what follows.
        case stopParser
    }

    /// Handles the consumer's return from a header, a stanza or the stream's end; `replacesParser` if the parser holds
    /// too much memory.
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

    enum SkippedHandledAction: Equatable {
        case readOn(from: Int)
        /// Forget the document and begin a new one from this offset of the buffer on.
        case beginDocument(from: Int)
        case finish
    }

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

    enum RequestAction {
        /// Forget the unfinished part; the request is done at once.
        case forget
        /// Nothing now: the request is done after the event, or there is nothing to do.
        case ignore
    }

    /// Handles the consumer's request for a new document.
    mutating func restart() -> RequestAction { request(.restart, then: .beforeHeader) }

    mutating func stop() -> RequestAction { request(.stop, then: .stopped(at: position)) }

    private mutating func request(_ request: Request, then next: Successor) -> RequestAction {
        switch state {
        case .delivering(var delivery):
            delivery.request = request
            state = .delivering(delivery)
            return .ignore
        case .stopped, .failed: return .ignore
        default:
            enter(next)
            return .forget
        }
    }
}
