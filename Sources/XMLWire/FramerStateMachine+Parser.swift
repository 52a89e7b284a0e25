/// What the parser's callbacks report.
extension FramerStateMachine {
    /// What to do with a start tag.
    enum StartTagAction: Sendable, Hashable {
        /// Store the stream's own, then call ``headerEnded(_:at:)``.
        case storeHeader
        /// Store an element of a stanza.
        case storeElement
        /// Stop the parser.
        case stopParser
        case ignore
    }

    /// A start tag has been read; `elements` of its stanza came before it.
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
        case .beforeHeader, .betweenStanzas, .replayingHeader, .rejecting, .skipping, .delivering, .leaving, .closed,
            .stopped, .failed:
            return .ignore
        }
    }

    private mutating func stop(_ code: XMLStreamError.Code) -> StartTagAction {
        state = .failed(XMLStreamError(code), at: position)
        return .stopParser
    }

    /// What to do with an end tag.
    enum EndTagAction: Sendable, Hashable {
        /// Close the innermost element.
        case closeElement
        /// Close the stanza, then call ``stanzaEnded(at:size:)``.
        case finishStanza
        /// The stream's own: call ``documentEnded(at:)``.
        case finishDocument
        case ignore
    }

    /// An end tag, or the end of an empty element, has been read.
    mutating func endTag() -> EndTagAction {
        switch state {
        case .inStanza(let depth) where depth > 1:
            state = .inStanza(depth: depth - 1)
            return .closeElement
        case .inStanza(depth: 1):
            return .finishStanza
        // `</stream:stream>` begins like a stanza; `<stream:stream/>` ends directly after its header.
        case .inStanza, .betweenStanzas:
            return .finishDocument
        case .beforeHeader, .inHeader, .replayingHeader, .rejecting, .skipping, .delivering, .leaving, .closed,
            .stopped, .failed:
            return .ignore
        }
    }

    /// What to do with a CDATA section.
    enum SectionAction: Sendable, Hashable {
        /// Store its text.
        case store
        /// Stop the parser.
        case stopParser
        case ignore
    }

    /// A CDATA section, or a part of one, has been read.
    mutating func section() -> SectionAction {
        guard isParsing else { return .ignore }
        if keepsText { return .store }
        state = .failed(XMLStreamError(.textAtStreamLevel), at: position)
        return .stopParser
    }

    /// What to do when the parser may have to be stopped.
    enum StopAction: Sendable, Hashable {
        /// Stop the parser.
        case stopParser
        case ignore
    }

    /// The parser, or the framer while the parser is in use, has found an error.
    ///
    /// Only the first counts, and none after the parser was told to stop.
    @discardableResult
    mutating func fail(_ error: XMLStreamError) -> StopAction {
        guard isParsing else { return .ignore }
        state = .failed(error, at: position)
        return .stopParser
    }

    /// The stanza being read is over a bound.
    mutating func reject(_ reason: SkippedStanza.Reason) -> StopAction {
        guard case .inStanza = state else { return .ignore }
        state = .rejecting(reason)
        return .stopParser
    }

    /// The parser has found an error after which it could go on, or met a bound of its own.
    ///
    /// Such a stanza is well-formed XML, which a server may pass on from anybody: no reason to end the stream.
    mutating func stanzaFailed(_ reason: SkippedStanza.Reason, parserCode: Int32) -> StopAction {
        if case .inStanza = state { return reject(reason) }
        fail(XMLStreamError(.notWellFormed, parserCode: parserCode))
        // The parser goes on or ends by itself.
        return .ignore
    }
}
