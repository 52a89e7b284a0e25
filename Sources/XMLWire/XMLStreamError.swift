/// Why a stream was given up.
///
/// Final: the framer refuses everything after it, since a parser that continues after an error sees other stanzas than
/// its peer does. Holds no byte of the peer's input.
package struct XMLStreamError: Error, Sendable, Hashable {
    /// The limits of ``StreamLimits`` that end a stream; two count in the stream's own start tag only.
    package enum Limit: Sendable, CaseIterable {
        case stanzaBytes, attributes, namespaces, headerBytes
    }

    package enum Code: Sendable, Hashable {
        /// A violation of XML 1.0 or Namespaces in XML, not UTF-8, or bytes after the stream's end tag.
        case notWellFormed
        case dtd, entity, comment, processingInstruction
        /// An encoding other than UTF-8, declared or recognised by the first bytes.
        case badEncoding
        case limit(Limit)
        /// The root is not `stream` in `http://etherx.jabber.org/streams`.
        case invalidNamespace
        case textAtStreamLevel, tlsRecord, parserUnavailable
    }

    package let code: Code
    /// libxml2's error number (`xmlParserErrors`); 0 for errors found elsewhere.
    package let parserCode: Int32

    init(_ code: Code, parserCode: Int32 = 0) {
        self.code = code
        self.parserCode = parserCode
    }

    /// The local name of the stream error condition to answer with (RFC 6120 §4.9.3).
    package var condition: StaticString { facts.condition }
    /// The log message: constant text that names the cause and, if there is one, the fix.
    package var message: String { facts.message }

    private var facts: (condition: StaticString, message: String) {
        switch code {
        case .notWellFormed: ("not-well-formed", "the peer's XML is not well-formed")
        case .dtd: ("restricted-xml", "the peer sent a document type declaration, which XMPP forbids")
        case .entity:
            (
                "restricted-xml",
                "the peer sent an entity reference other than the five predefined ones, which XMPP forbids"
            )
        case .comment: ("restricted-xml", "the peer sent an XML comment, which XMPP forbids")
        case .processingInstruction: ("restricted-xml", "the peer sent a processing instruction, which XMPP forbids")
        case .badEncoding: ("unsupported-encoding", "the peer's stream is not in UTF-8")
        case .limit(.stanzaBytes): ("policy-violation", "a stanza is larger than limits.stanza allows")
        case .limit(.attributes): ("policy-violation", "the stream header has too many attributes")
        case .limit(.namespaces): ("policy-violation", "the stream header declares too many namespaces")
        case .limit(.headerBytes): ("policy-violation", "the stream header is too long")
        case .invalidNamespace:
            ("invalid-namespace", "the peer's document is not an XMPP stream: check that the port speaks XMPP")
        case .textAtStreamLevel: ("bad-format", "the peer sent text between stanzas")
        case .tlsRecord:
            ("not-well-formed", "the peer speaks TLS on a connection opened as plain text: set tls.mode to direct")
        case .parserUnavailable: ("internal-server-error", "no memory for an XML parser")
        }
    }
}

extension XMLStreamError: CustomStringConvertible {
    package var description: String { parserCode == 0 ? message : "\(message) (libxml2 error \(parserCode))" }
}
