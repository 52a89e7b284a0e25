import CLibXML2

/// libxml2's callbacks, which run inside `PushParser.parse`.
extension XMLFramer {
    /// The namespace of the stream's root (RFC 6120 §4.8.1).
    private static let streamNamespace: StaticString = "http://etherx.jabber.org/streams"

    func startElement(_ tag: StanzaBuilder.StartTag) {
        let action = machine.pointee.startTag(
            attributes: tag.attributeCount,
            namespaces: tag.declarationCount,
            elements: builder.pointee.elementCount
        )
        switch action {
        case .storeElement, .storeHeader:
            builder.pointee.start(tag)
            if action == .storeHeader {
                plainNamespace = defaultNamespace(of: tag)
                finishHeader()
            } else if let reason = builder.pointee.excess() {
                obey(machine.pointee.reject(reason))
            }
        case .stopParser: parser?.stop()
        case .ignore: break
        }
    }

    /// The default namespace that a start tag declares: empty if there is none, nil if it is not plain.
    private func defaultNamespace(of tag: StanzaBuilder.StartTag) -> [UInt8]? {
        guard let given = tag.declarations else { return [] }
        for index in 0..<tag.declarationCount where given[2 * index] == nil {
            guard let name = given[2 * index + 1] else { return nil }
            let bytes = Array(UnsafeBufferPointer(start: name, count: Int(xmlStrlen(name))))
            // libxml2 has not decoded it.
            return bytes.contains(UInt8(ascii: "&")) ? nil : bytes
        }
        return []
    }

    func endElement() {
        switch machine.pointee.endTag() {
        case .closeElement: builder.pointee.end()
        case .finishStanza:
            builder.pointee.end()
            finishStanza()
        case .finishDocument: finishDocument()
        case .ignore: break
        }
    }

    func characters(_ text: UnsafeBufferPointer<UInt8>) {
        if machine.pointee.keepsText { builder.pointee.text(text) }
    }

    func cdata(_ text: UnsafeBufferPointer<UInt8>) {
        // libxml2 gives whole characters, but accepts overlong forms here (2.9.14), and only here.
        guard UTF8Check.accepts(text) else { return fail(.notWellFormed) }
        switch machine.pointee.section() {
        case .store: storeSection(text)
        case .stopParser: parser?.stop()
        case .ignore: break
        }
    }

    /// Stores a piece of a CDATA section with line feeds as line ends (XML 1.0, 2.11), which the push parser does in
    /// other text only.
    private func storeSection(_ text: UnsafeBufferPointer<UInt8>) {
        var rest = text[...]
        while let carriageReturn = rest.firstIndex(of: 0x0D) {
            builder.pointee.text(UnsafeBufferPointer(rebasing: rest[..<carriageReturn]))
            let next = carriageReturn + 1
            // The piece lies in the parser's input, which continues after it with the rest of the section, or its end.
            if text.baseAddress?[next] != 0x0A { Self.lineFeed.withUnsafeBufferPointer { builder.pointee.text($0) } }
            rest = rest[next...]
        }
        builder.pointee.text(UnsafeBufferPointer(rebasing: rest))
    }

    private static let lineFeed: [UInt8] = [0x0A]

    func fail(_ code: XMLStreamError.Code) { obey(machine.pointee.fail(XMLStreamError(code))) }

    func parserFailed(_ error: XMLStreamError) { machine.pointee.fail(error) }

    /// Handles a recoverable error of the parser, or one of its own limits.
    func stanzaFailed(_ reason: SkippedStanza.Reason, parserCode: Int32) {
        obey(machine.pointee.stanzaFailed(reason, parserCode: parserCode))
    }

    private func obey(_ action: FramerStateMachine.StopAction) {
        if action == .stopParser { parser?.stop() }
    }

    // MARK: - Whole things

    /// Handles the stream's start tag, read up to its `>` or `/>`.
    private func finishHeader() {
        guard let parser else { return }
        let next = parser.nextByte
        // Anything else is an error, which libxml2 reports next.
        guard next == UInt8(ascii: ">") || next == UInt8(ascii: "/") else { return }
        // The `/` of `<stream:stream/>` is left out of the header, so that it leaves the element open when replayed.
        let tagEnd = parser.position - window.base
        header.append(contentsOf: window.slice.prefix(max(0, tagEnd)))
        let end = min(tagEnd + (next == UInt8(ascii: ">") ? 1 : 2), window.slice.count)
        let stanza = builder.pointee.exchangeContents()
        let isStream = stanza.element(0, is: "stream", in: Self.streamNamespace)
        let isUTF8 = isDeclaredUTF8(header)
        let action = machine.pointee.headerEnded(bytes: header.count, isUTF8: isUTF8, isStream: isStream, at: end)
        guard action == .deliver else {
            takeBackContents()
            return parser.stop()
        }
        header.removeSubrange(..<startOfRoot(in: header))
        header.append(UInt8(ascii: ">"))
        sink?(.opened(stanza))
        takeBackContents()
        finishEvent(isFollowed: next == UInt8(ascii: ">"))
    }

    private func finishStanza() {
        guard let parser else { return }
        let end = parser.position - window.base
        // Always so except in held-back bytes, which hold no end of a stanza.
        guard end <= window.slice.count else { return fail(.notWellFormed) }
        // The stanza was cut by the end of a buffer or slice; the next one may be in one piece.
        let returnsToPlain =
            readsPlainStanzas && plainNamespace != nil && !builder.pointee.raw.isEmpty && end < window.bytesLeft
        builder.pointee.keepRaw(UnsafeRawBufferPointer(rebasing: window.slice[min(window.unfinishedStart, end)..<end]))
        let size = builder.pointee.size(knownBelow: limits.stanzaBytes)
        guard machine.pointee.stanzaEnded(at: end, size: size) == .deliver else { return parser.stop() }
        builder.pointee.joinTexts()
        sink?(.stanza(builder.pointee.exchangeContents()))
        takeBackContents()
        finishEvent(
            replacesParser: returnsToPlain || window.base + end >= Self.parserBytes + header.count
                || parser.nameCount > Self.parserNames
        )
    }

    private func finishDocument() {
        guard let parser else { return }
        let end = parser.position - window.base
        guard end <= window.slice.count else { return fail(.notWellFormed) }
        builder.pointee.reset()
        guard machine.pointee.documentEnded(at: end) == .deliver else { return parser.stop() }
        sink?(.closed)
        finishEvent()
    }

    /// Takes back a lent stanza's storage, and clears it.
    func takeBackContents() {
        _ = builder.pointee.exchangeContents()
        builder.pointee.reset()
    }

    /// Continues after an event; nothing can follow `<stream:stream/>`.
    private func finishEvent(replacesParser: Bool = false, isFollowed: Bool = true) {
        switch machine.pointee.eventHandled(replacesParser: replacesParser) {
        case .readOn(let end):
            guard isFollowed else { return }
            _ = beginStanza(in: window.slice, at: end)
            if machine.pointee.isFinal { parser?.stop() }
        case .stopParser: parser?.stop()
        }
    }

    // MARK: - The XML declaration

    /// Whether the XML declaration, if any, gives no encoding or UTF-8; libxml2 is told to ignore it.
    private func isDeclaredUTF8(_ document: [UInt8]) -> Bool {
        let declaration = document[..<endOfDeclaration(in: document)]
        guard let name = declaration.firstRange(of: Array("encoding".utf8)) else { return true }
        let rest = declaration[name.upperBound...]
        let quotes: [UInt8] = [UInt8(ascii: "'"), UInt8(ascii: "\"")]
        guard
            let open = rest.firstIndex(where: { quotes.contains($0) }),
            let close = rest[(open + 1)...].firstIndex(of: rest[open])
        else { return false }
        // Bit 5 makes ASCII letters lower case and leaves `-` and digits unchanged.
        return rest[(open + 1)..<close].map { $0 | 0x20 } == Array("utf-8".utf8)
    }

    private func endOfDeclaration(in document: [UInt8]) -> Int {
        guard document.starts(with: "<?xml".utf8) else { return 0 }
        return document.firstRange(of: Array("?>".utf8))?.upperBound ?? document.count
    }

    /// The place of the root's `<`: there is only whitespace between it and the declaration.
    private func startOfRoot(in document: [UInt8]) -> Int {
        let declarationEnd = endOfDeclaration(in: document)
        return document[declarationEnd...].firstIndex(of: UInt8(ascii: "<")) ?? declarationEnd
    }
}
