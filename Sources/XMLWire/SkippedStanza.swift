/// What is known of a stanza that was well-formed and discarded.
package struct SkippedStanza: Sendable, Equatable {
    /// What was too much.
    package enum Reason: Sendable, Hashable, CaseIterable {
        /// ``StreamLimits/depth``
        case depth
        /// ``StreamLimits/elements``
        case elements
        /// ``StreamLimits/attributes``
        case attributes
        /// ``StreamLimits/namespaces``
        case namespaces
        /// A name longer than the parser takes.
        case name
        /// ``StreamLimits/parsedBytes``
        case memory
        /// Against Namespaces in XML: a prefix that is not declared, above all.
        case namespace

        /// A short name from a closed set, for the log.
        package var shortDescription: String {
            switch self {
            case .depth: "depth"
            case .elements: "elements"
            case .attributes: "attributes"
            case .namespaces: "namespaces"
            case .name: "name"
            case .memory: "memory"
            case .namespace: "namespace"
            }
        }
    }

    /// Why it was skipped.
    package let reason: Reason
    /// What its start tag said it was.
    package let name: StanzaName
    /// Its bytes on the wire.
    package let byteCount: Int
}

/// The local name of a top-level element, as far as it tells a stanza (RFC 6120 §8) from what is none.
package enum StanzaName: Sendable, Hashable {
    /// `message`
    case message
    /// `presence`
    case presence
    /// `iq`
    case iq
    /// No stanza, and not counted by stream management (XEP-0198).
    case other

    /// Whether it is a stanza.
    package var isStanza: Bool { self != .other }

    /// The longest beginning of a stanza that ``init(startTag:)`` can make use of.
    static let sufficientBytes = 64

    /// Reads a name as it stands in a tag, with or without a prefix.
    init(_ qualifiedName: some Collection<UInt8>) {
        let colon = qualifiedName.firstIndex(of: UInt8(ascii: ":"))
        let name = qualifiedName[(colon.map { qualifiedName.index(after: $0) } ?? qualifiedName.startIndex)...]
        self =
            if name.elementsEqual("message".utf8) {
                .message
            } else if name.elementsEqual("presence".utf8) {
                .presence
            } else if name.elementsEqual("iq".utf8) {
                .iq
            } else {
                .other
            }
    }

    /// Reads the beginning of a top-level element.
    init(startTag: some Collection<UInt8>) {
        let ends: [UInt8] = [0x20, 0x09, 0x0A, 0x0D, UInt8(ascii: "/"), UInt8(ascii: ">")]
        let name = startTag.dropFirst()
        self.init(name.prefix { !ends.contains($0) })
    }
}
