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

    /// The stream error condition to answer with (RFC 6120 §4.9.3): a local name in
    /// `urn:ietf:params:xml:ns:xmpp-streams`.
    package var condition: StaticString { facts.condition }
    /// A metric label's value from a closed set.
    package var shortDescription: String { facts.name }
    /// The log message: constant text that names the cause and, if there is one, the fix.
    package var message: String { facts.message }

    private var facts: (condition: StaticString, name: String, message: String) {
        switch code {
        case .notWellFormed: ("not-well-formed", "not_well_formed", "the peer's XML is not well-formed")
        case .dtd:
            ("restricted-xml", "dtd", "the peer sent a document type declaration, which XMPP forbids")
        case .entity:
            (
                "restricted-xml", "entity",
                "the peer sent an entity reference other than the five predefined ones, which XMPP forbids"
            )
        case .comment: ("restricted-xml", "comment", "the peer sent an XML comment, which XMPP forbids")
        case .processingInstruction:
            (
                "restricted-xml", "processing_instruction",
                "the peer sent a processing instruction, which XMPP forbids"
            )
        case .badEncoding: ("unsupported-encoding", "bad_encoding", "the peer's stream is not in UTF-8")
        case .limit(.stanzaBytes): ("policy-violation", "limit", "a stanza is larger than limits.stanza allows")
        case .limit(.attributes): ("policy-violation", "limit", "the stream header has too many attributes")
        case .limit(.namespaces): ("policy-violation", "limit", "the stream header declares too many namespaces")
        case .limit(.headerBytes): ("policy-violation", "limit", "the stream header is too long")
        case .invalidNamespace:
            (
                "invalid-namespace", "invalid_namespace",
                "the peer's document is not an XMPP stream: check that the port speaks XMPP"
            )
        case .textAtStreamLevel: ("bad-format", "text_at_stream_level", "the peer sent text between stanzas")
        case .tlsRecord:
            (
                "not-well-formed", "tls_record",
                "the peer speaks TLS on a connection opened as plain text: set tls.mode to direct"
            )
        case .parserUnavailable: ("internal-server-error", "parser_unavailable", "no memory for an XML parser")
        }
    }
}

extension XMLStreamError: CustomStringConvertible {
    package var description: String { parserCode == 0 ? message : "\(message) (libxml2 error \(parserCode))" }
}
