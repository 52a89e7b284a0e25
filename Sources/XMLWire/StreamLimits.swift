/// What a peer may send before the stream is ended with `policy-violation`.
///
/// The limits hold at every moment, also inside an unfinished start tag, attribute or CDATA section, and however the
/// bytes are cut into reads.
package struct StreamLimits: Sendable, Equatable {
    /// Bytes of one stanza on the wire, from `<` to `>` (configuration: `limits.stanza`).
    ///
    /// Leave room for escaping: a server that writes each `"` as `&quot;` makes 15 KB of a 4 KB JSON payload.
    package var stanzaBytes = 256 * 1024
    /// Elements open at once inside the stream; the stanza itself is the first (configuration: `limits.depth`).
    package var depth = 64
    /// Elements of one stanza, itself included.
    ///
    /// Bounds the memory a stanza of `<a/><a/>…` takes once parsed.
    package var elements = 4096
    /// Attributes of one element, namespace declarations not included.
    package var attributes = 64
    /// Namespace declarations of one element.
    package var namespaces = 16
    /// Bytes from the start of the document to the end of the stream's start tag.
    package var headerBytes = 16 * 1024

    package init() {}
}
