import CLibXML2

/// The owner of a libxml2 push parser, which reports to one ``XMLFramer``.
///
/// It knows neither limits nor stanzas. The input is UTF-8 whatever the document declares, because byte positions are
/// meaningful only without a decoder in between.
final class PushParser {
    /// `xmlInitParser` must return before threads make contexts.
    private static let libraryIsReady: Void = xmlInitParser()

    private let context: xmlParserCtxtPtr

    /// Makes a parser for the framer that owns it; nil if out of memory.
    init?(for framer: XMLFramer) {
        Self.libraryIsReady
        var handler = Self.callbacks
        // libxml2 copies the handler. We own the context and free it in deinit.
        guard
            let context = xmlCreatePushParserCtxt(&handler, Unmanaged.passUnretained(framer).toOpaque(), nil, 0, nil)
        else { return nil }
        self.context = context
        // No substitution, no DTD, no network; libxml2's own limits stay (no XML_PARSE_HUGE).
        let options = XML_PARSE_NONET.rawValue | XML_PARSE_IGNORE_ENC.rawValue
        xmlCtxtUseOptions(context, Int32(bitPattern: options))
        xmlSwitchEncoding(context, XML_CHAR_ENCODING_UTF8)
    }

    // No tree is built, so there is no document to free besides the context.
    deinit { xmlFreeParserCtxt(context) }

    /// The number of bytes consumed; in a callback, the parser's position.
    var position: Int { Int(xmlByteConsumed(context)) }

    /// The next byte of the input, in a callback.
    var nextByte: UInt8? { context.pointee.input?.pointee.cur?.pointee }

    /// The number of distinct names that the parser keeps.
    var nameCount: Int { Int(xmlDictSize(context.pointee.dict)) }

    /// Whether the parser is inside a CDATA section, of which it takes little at a time.
    var isInSection: Bool { context.pointee.instate == XML_PARSER_CDATA_SECTION }

    /// Whether the document is well-formed so far, apart from namespace errors, which the callback reports.
    var isWellFormed: Bool { context.pointee.wellFormed != 0 }

    func parse(_ bytes: UnsafeRawBufferPointer) {
        guard let start = bytes.baseAddress else { return }
        // libxml2 copies the bytes. The callback reports errors, so the result adds nothing.
        _ = xmlParseChunk(context, start.assumingMemoryBound(to: CChar.self), Int32(clamping: bytes.count), 0)
    }

    /// Makes ``parse(_:)`` return without another callback; for callbacks.
    func stop() { xmlStopParser(context) }

    private static func framer(_ pointer: UnsafeMutableRawPointer?) -> Unmanaged<XMLFramer>? {
        pointer.map { Unmanaged<XMLFramer>.fromOpaque($0) }
    }

    private static func refuse(_ pointer: UnsafeMutableRawPointer?, _ code: XMLStreamError.Code) {
        framer(pointer)?._withUnsafeGuaranteedRef { $0.fail(code) }
    }

    /// The SAX2 callbacks, which refuse everything that XMPP forbids (RFC 6120 §11.1) before libxml2 acts on it.
    private static var callbacks: xmlSAXHandler {
        var handler = xmlSAXHandler()
        handler.initialized = UInt32(XML_SAX2_MAGIC)
        handler.startElementNs = { pointer, name, _, namespace, namespaceCount, declarations, count, _, attributes in
            guard let name else { return }
            let tag = StanzaBuilder.StartTag(
                name: name,
                namespace: namespace,
                declarations: declarations,
                declarationCount: Int(namespaceCount),
                attributes: attributes,
                attributeCount: Int(count)
            )
            PushParser.framer(pointer)?._withUnsafeGuaranteedRef { $0.startElement(tag) }
        }
        handler.endElementNs = { pointer, _, _, _ in
            PushParser.framer(pointer)?._withUnsafeGuaranteedRef { $0.endElement() }
        }
        let characters: charactersSAXFunc = { pointer, text, count in
            PushParser.framer(pointer)?._withUnsafeGuaranteedRef {
                $0.characters(UnsafeBufferPointer(start: text, count: Int(count)))
            }
        }
        handler.characters = characters
        handler.cdataBlock = { pointer, text, count in
            PushParser.framer(pointer)?._withUnsafeGuaranteedRef {
                $0.cdata(UnsafeBufferPointer(start: text, count: Int(count)))
            }
        }
        // The same function here keeps libxml2 from guessing which whitespace matters.
        handler.ignorableWhitespace = characters
        handler.internalSubset = { pointer, _, _, _ in PushParser.refuse(pointer, .dtd) }
        handler.externalSubset = { pointer, _, _, _ in PushParser.refuse(pointer, .dtd) }
        // Not called for the five predefined entities or character references. Finding nothing ends the parse.
        handler.getEntity = { pointer, _ in
            PushParser.framer(pointer)?._withUnsafeGuaranteedRef { $0.parserFailed(XMLStreamError(.entity)) }
            return nil
        }
        handler.reference = { pointer, _ in PushParser.refuse(pointer, .entity) }
        handler.comment = { pointer, _ in PushParser.refuse(pointer, .comment) }
        handler.processingInstruction = { pointer, _, _ in PushParser.refuse(pointer, .processingInstruction) }
        handler.serror = { pointer, error in
            // Warnings are below XML_ERR_ERROR. The error's text quotes the input, so it is not used.
            guard let error, error.pointee.level.rawValue >= XML_ERR_ERROR.rawValue else { return }
            // A namespace name that is not a URI is an error to libxml2, but valid in XML's grammar and for XMPP
            // servers: any account that may write to us could end the stream with one.
            guard error.pointee.code != XML_WAR_NS_URI.rawValue else { return }
            let (code, domain) = (Int32(error.pointee.code), error.pointee.domain)
            PushParser.framer(pointer)?._withUnsafeGuaranteedRef {
                if domain == XML_FROM_NAMESPACE.rawValue {
                    $0.stanzaFailed(.namespace, parserCode: code)
                } else if code == XML_ERR_NAME_TOO_LONG.rawValue {
                    $0.stanzaFailed(.name, parserCode: code)
                } else {
                    $0.parserFailed(XMLStreamError(.notWellFormed, parserCode: code))
                }
            }
        }
        return handler
    }
}
