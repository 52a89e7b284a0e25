/// Why a stream was given up.
///
/// Final: the framer refuses everything after it, since a parser that continues after an error sees other stanzas than
/// its peer does. Holds no byte of the peer's input.
package struct XMLStreamError: Error, Sendable, Hashable {
    /// The limits of ``StreamLimits`` that end a stream.
    package enum Limit: Sendable, Hashable, CaseIterable {
        case stanzaBytes
        /// ``StreamLimits/attributes``, in the stream's own start tag
        case attributes
        /// ``StreamLimits/namespaces``, in the stream's own start tag
        case namespaces
        case headerBytes
    }

    package enum Code: Sendable, Hashable {
        /// A violation of XML 1.0 or Namespaces in XML, not UTF-8, or bytes after the stream's end tag.
        case notWellFormed
        case dtd
        /// A reference to an entity that XML does not predefine.
        case entity
        case comment
        case processingInstruction
        /// An encoding other than UTF-8, declared or recognised by the first bytes.
        case badEncoding
        case limit(Limit)
        /// The root is not `stream` in `http://etherx.jabber.org/streams`.
        case invalidNamespace
        /// Something other than whitespace and elements between stanzas.
        case textAtStreamLevel
        /// A TLS record where plain text was expected.
        case tlsRecord
        case parserUnavailable
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
    package var condition: StaticString {
        switch code {
        case .notWellFormed, .tlsRecord: "not-well-formed"
        case .dtd, .entity, .comment, .processingInstruction: "restricted-xml"
        case .badEncoding: "unsupported-encoding"
        case .limit: "policy-violation"
        case .invalidNamespace: "invalid-namespace"
        case .textAtStreamLevel: "bad-format"
        case .parserUnavailable: "internal-server-error"
        }
    }

    /// The log message: constant text that names the cause and, if there is one, the fix.
    package var message: String {
        switch code {
        case .notWellFormed: "the peer's XML is not well-formed"
        case .dtd: "the peer sent a document type declaration, which XMPP forbids"
        case .entity: "the peer sent an entity reference other than the five predefined ones, which XMPP forbids"
        case .comment: "the peer sent an XML comment, which XMPP forbids"
        case .processingInstruction: "the peer sent a processing instruction, which XMPP forbids"
        case .badEncoding: "the peer's stream is not in UTF-8"
        case .limit(let limit): limit.message
        case .invalidNamespace: "the peer's document is not an XMPP stream: check that the port speaks XMPP"
        case .textAtStreamLevel: "the peer sent text between stanzas"
        case .tlsRecord: "the peer speaks TLS on a connection opened as plain text: set tls.mode to direct"
        case .parserUnavailable: "no memory for an XML parser"
        }
    }

    /// A metric label's value from a closed set.
    package var shortDescription: String {
        switch code {
        case .notWellFormed: "not_well_formed"
        case .dtd: "dtd"
        case .entity: "entity"
        case .comment: "comment"
        case .processingInstruction: "processing_instruction"
        case .badEncoding: "bad_encoding"
        case .limit: "limit"
        case .invalidNamespace: "invalid_namespace"
        case .textAtStreamLevel: "text_at_stream_level"
        case .tlsRecord: "tls_record"
        case .parserUnavailable: "parser_unavailable"
        }
    }
}

extension XMLStreamError.Limit {
    fileprivate var message: String {
        switch self {
        case .stanzaBytes: "a stanza is larger than limits.stanza allows"
        case .attributes: "the stream header has too many attributes"
        case .namespaces: "the stream header declares too many namespaces"
        case .headerBytes: "the stream header is too long"
        }
    }
}

extension XMLStreamError: CustomStringConvertible {
    package var description: String {
        parserCode == 0 ? message : "\(message) (libxml2 error \(parserCode))"
    }
}
