package enum XMLStreamEvent {
    /// The peer's stream header. Element 0 is the start tag, without children. Lent for the call.
    case opened(Stanza)
    case stanza(Stanza)
    /// The end of a skipped stanza: well-formed, but over a limit other than its length, or against the rules of
    /// namespaces. Stream management counts it as handled.
    case skipped(SkippedStanza)
    case closed
}
