/// What ``XMLStreamHandler`` tells the next handler, in stream order.
package enum XMLStreamEvent {
    /// The peer's stream header. Element 0 is the start tag, without children. Lent for the call.
    case opened(Stanza)
    /// A whole stanza. Lent for the call.
    case stanza(Stanza)
    /// The end of a stanza that was skipped: well-formed, and over a limit other than its length or against the rules of
    /// namespaces. Under stream management it counts as handled.
    case skipped(SkippedStanza)
    /// The peer's `</stream:stream>`.
    case closed
}
