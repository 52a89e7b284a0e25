/// A well-formed stanza that was discarded.
package struct SkippedStanza: Sendable, Equatable {
    /// The limit exceeded; a raw value is its name for the log.
    package enum Reason: String, Sendable {
        case depth, elements, attributes, namespaces
        /// ``StreamLimits/stanzaBytes``, with ``StreamLimits/skipsLongStanzas``.
        case length
        /// A name longer than the parser accepts.
        case name
        /// ``StreamLimits/parsedBytes``
        case memory
        /// A violation of Namespaces in XML, usually an undeclared prefix.
        case namespace
    }

    package let reason: Reason
    package let name: StanzaName
    package let byteCount: Int
    /// Its `id`, if that was read before the excess, and has at most ``idLimit`` bytes.
    package var id: [UInt8]?

    static let idLimit = 64
}

/// The local name of a top-level element, as far as it tells stanzas (RFC 6120 §8) from others.
package enum StanzaName: Sendable, Hashable {
    case message, presence, iq
    /// Not a stanza, and not counted by stream management (XEP-0198).
    case other

    package var isStanza: Bool { self != .other }

    /// The most bytes that ``init(startTag:)`` needs of a stanza's start.
    static let sufficientBytes = 64

    init(_ qualifiedName: some Collection<UInt8>) {
        let colon = qualifiedName.firstIndex(of: UInt8(ascii: ":"))
        let name = qualifiedName[(colon.map { qualifiedName.index(after: $0) } ?? qualifiedName.startIndex)...]
        self =
            switch true {
            case name.elementsEqual("message".utf8): .message
            case name.elementsEqual("presence".utf8): .presence
            case name.elementsEqual("iq".utf8): .iq
            default: .other
            }
    }

    init(startTag: some Collection<UInt8>) {
        let ends: [UInt8] = [0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: "/"), UInt8(ascii: ">")]
        let name = startTag.dropFirst()
        self.init(name.prefix { !ends.contains($0) })
    }
}
