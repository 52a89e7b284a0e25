/// Reports of the parser's callbacks.
extension FramerStateMachine {
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
