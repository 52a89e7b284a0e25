/// The position in a stream document; at the end of input, it tells a finished stream from a truncated one.
package enum XMLStreamPosition: Sendable, Hashable {
    case beforeHeader
    /// Inside the XML declaration or the stream's start tag.
    case header
    /// The header is complete and no stanza has begun.
    case betweenStanzas
    /// A stanza or the stream's end tag has begun.
    case stanza
    case closed
}
