import CLibXML2

/// What libxml2 reports, while `PushParser.parse` runs.
extension XMLFramer {
    /// The namespace of the stream's root (RFC 6120 §4.8.1).
    private static let streamNamespace: StaticString = "http://etherx.jabber.org/streams"

    func startElement(
        name: UnsafePointer<xmlChar>?,
        namespace: UnsafePointer<xmlChar>?,
        namespaceCount: Int,
        attributes: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?,
        attributeCount: Int
    ) {
        guard isListening, let name else { return }
        depth += 1
        if isReplayingHeader { return }
        if attributeCount > limits.attributes { return refuse(.attributes, .attributes) }
        if namespaceCount > limits.namespaces { return refuse(.namespaces, .namespaces) }
        if depth - 1 > limits.depth { return skipStanza(.depth) }
        if builder.pointee.elementCount >= limits.elements { return skipStanza(.elements) }
        builder.pointee.start(
            name: name,
            namespace: namespace,
            namespaceCount: namespaceCount,
            attributes: attributes,
            count: attributeCount
        )
        if depth == 1 { return finishHeader() }
        if let reason = builder.pointee.excess(over: limits) { skipStanza(reason) }
    }

    /// A start tag is too wide: the stream's own ends the stream, another one is skipped with its stanza.
    private func refuse(_ limit: XMLStreamError.Limit, _ reason: SkippedStanza.Reason) {
        depth == 1 ? fail(.limit(limit)) : skipStanza(reason)
    }

    /// What the parser calls an error that leaves it well able to go on, or that is a bound of its own.
    ///
    /// Such a stanza is well-formed XML, which a server may pass on from anybody: no reason to end the stream.
    func stanzaFailed(_ reason: SkippedStanza.Reason, parserCode: Int32) {
        guard isListening else { return }
        guard position == .stanza, !isReplayingHeader else {
            return record(XMLStreamError(.notWellFormed, parserCode: parserCode))
        }
        skipStanza(reason)
    }

    /// Has the stanza being read skipped to its end, once the parser has returned.
    func skipStanza(_ reason: SkippedStanza.Reason) {
        guard isListening else { return }
        skipReason = reason
        isListening = false
        parser?.stop()
    }

    func endElement() {
        guard isListening else { return }
        depth -= 1
        switch depth {
        case 0:
            finishDocument()
        case 1:
            builder.pointee.end()
            finishStanza()
        default:
            builder.pointee.end()
        }
    }

    func characters(_ text: UnsafeBufferPointer<UInt8>) {
        // At depth 1 there is only whitespace, which was counted as it came.
        guard depth > 1, isListening else { return }
        builder.pointee.text(text)
    }

    func cdata(_ text: UnsafeBufferPointer<UInt8>) {
        guard isListening else { return }
        guard depth > 1 else { return fail(.textAtStreamLevel) }
        builder.pointee.text(text)
    }

    /// Ends the stream with an error; for callbacks.
    func fail(_ code: XMLStreamError.Code) {
        record(XMLStreamError(code))
        parser?.stop()
    }

    /// Notes the first error, unless the parser was told to stop before.
    func record(_ error: XMLStreamError) {
        guard isListening else { return }
        failure = error
        isListening = false
    }

    // MARK: - Whole things

    /// The stream's start tag has been read up to its `>` or `/>`.
    private func finishHeader() {
        guard let parser else { return }
        let next = parser.nextByte
        // Anything else is an error, which libxml2 reports next.
        guard next == UInt8(ascii: ">") || next == UInt8(ascii: "/") else { return }
        // The `/` of `<stream:stream/>` is left out of the header, so that it leaves the element open when replayed.
        let tagEnd = parser.position - sliceBase
        header.append(contentsOf: slice.prefix(max(0, tagEnd)))
        guard isDeclaredUTF8(header) else { return fail(.badEncoding) }
        guard header.count < limits.headerBytes else { return fail(.limit(.headerBytes)) }
        let tagStart = startOfRoot(in: header)
        header.removeSubrange(..<tagStart)
        header.append(UInt8(ascii: ">"))

        let end = min(tagEnd + (next == UInt8(ascii: ">") ? 1 : 2), slice.count)
        let stanza = builder.pointee.exchangeContents()
        if stanza.element(0, is: "stream", in: Self.streamNamespace) {
            position = .betweenStanzas
            emit(.opened(stanza), end: end)
        } else {
            fail(.invalidNamespace)
        }
        takeBackContents()
        guard failure == nil else { return }
        if next == UInt8(ascii: ">") { goOn(from: end) }
    }

    private func finishStanza() {
        guard let parser else { return }
        let end = parser.position - sliceBase
        // Not so in bytes that were held back: they hold no end of a stanza.
        guard end <= slice.count else { return fail(.notWellFormed) }
        builder.pointee.keepRaw(UnsafeRawBufferPointer(rebasing: slice[min(unfinishedStart, end)..<end]))
        guard builder.pointee.size(knownBelow: limits.stanzaBytes) <= limits.stanzaBytes else {
            return fail(.limit(.stanzaBytes))
        }
        builder.pointee.joinTexts()
        position = .betweenStanzas
        emit(.stanza(builder.pointee.exchangeContents()), end: end)
        takeBackContents()
        goOn(from: end)
    }

    /// Takes the storage of a stanza that was lent, and forgets it.
    private func takeBackContents() {
        _ = builder.pointee.exchangeContents()
        builder.pointee.reset()
    }

    private func finishDocument() {
        guard let parser else { return }
        let end = parser.position - sliceBase
        guard end <= slice.count else { return fail(.notWellFormed) }
        builder.pointee.reset()
        position = .closed
        emit(.closed, end: end)
        // The parser has nothing more to say: what follows is refused here, or belongs to the next document.
        if cut == nil { breakOff(at: end) }
    }

    private func emit(_ event: XMLStreamEvent, end: Int) {
        eventEnd = end
        sink?(event)
        eventEnd = 0
        if case .none = request { return }
        breakOff(at: end)
    }

    /// Looks for the next stanza behind the one that ended at `end`, or has the parser replaced there.
    private func goOn(from end: Int) {
        guard cut == nil else { return }
        if sliceBase + end >= Self.parserBytes + header.count || (parser?.nameCount ?? 0) > Self.parserNames {
            return breakOff(at: end)
        }
        _ = beginStanza(in: slice, at: end)
        if failure != nil { parser?.stop() }
    }

    private func breakOff(at end: Int) {
        cut = end
        isListening = false
        parser?.stop()
    }

    // MARK: - The XML declaration

    /// Whether the XML declaration, if any, leaves the encoding open or says UTF-8.
    ///
    /// libxml2 is told to ignore it; it has checked the syntax.
    private func isDeclaredUTF8(_ document: [UInt8]) -> Bool {
        let declaration = document[..<endOfDeclaration(in: document)]
        guard let name = declaration.firstRange(of: Array("encoding".utf8)) else { return true }
        let rest = declaration[name.upperBound...]
        let quotes: [UInt8] = [UInt8(ascii: "'"), UInt8(ascii: "\"")]
        guard
            let open = rest.firstIndex(where: { quotes.contains($0) }),
            let close = rest[(open + 1)...].firstIndex(of: rest[open])
        else { return false }
        // Bit 5 makes ASCII letters lower case and leaves `-` and digits as they are.
        return rest[(open + 1)..<close].map { $0 | 0x20 } == Array("utf-8".utf8)
    }

    private func endOfDeclaration(in document: [UInt8]) -> Int {
        guard document.starts(with: "<?xml".utf8) else { return 0 }
        return document.firstRange(of: Array("?>".utf8))?.upperBound ?? document.count
    }

    /// Where the root's `<` stands: there is nothing but whitespace between it and the declaration.
    private func startOfRoot(in document: [UInt8]) -> Int {
        let declarationEnd = endOfDeclaration(in: document)
        return document[declarationEnd...].firstIndex(of: UInt8(ascii: "<")) ?? declarationEnd
    }
}
