/// How far a stream document has come.
///
/// At the end of input it tells a finished stream from one cut short.
package enum XMLStreamPosition: Sendable, Hashable {
    /// No byte of the document yet.
    case beforeHeader
    /// Inside the XML declaration or the stream's start tag.
    case header
    /// The header is complete and no stanza is begun.
    case betweenStanzas
    /// A stanza, or the stream's end tag, is begun.
    case stanza
    /// After `</stream:stream>`.
    case closed
}
