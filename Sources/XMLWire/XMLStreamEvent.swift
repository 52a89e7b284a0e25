/// What ``XMLStreamHandler`` tells the next handler, in stream order.
package enum XMLStreamEvent {
    /// The peer's stream header. Element 0 is the start tag, without children. Lent for the call.
    case opened(Stanza)
    /// A whole stanza. Lent for the call.
    case stanza(Stanza)
    /// The peer's `</stream:stream>`.
    case closed
}
