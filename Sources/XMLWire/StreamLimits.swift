/// The limits on a peer's input.
///
/// They apply at every moment, also inside an unfinished start tag, attribute or CDATA section, and however the bytes
/// are cut into reads. A stanza over ``stanzaBytes`` and a header over ``headerBytes`` end the stream with
/// `policy-violation`. A stanza over any other limit is skipped to its end, since any account that may write to us can
/// send one; one over ``stanzaBytes`` too with ``skipsLongStanzas``.
package struct StreamLimits: Sendable, Equatable {
    /// Bytes of one stanza, from `<` to `>` (configuration: `limits.stanza`).
    ///
    /// A reference counts as one byte: each quotation mark of a stanza may reach us as the six bytes of `&quot;`.
    package var stanzaBytes = 256 * 1024
    /// Whether a stanza over ``stanzaBytes`` is skipped as well, where it would come again and again; ``stanzaBytes`` then
    /// bounds the memory for it, which holds the names of its open elements.
    package var skipsLongStanzas = false
    /// Elements open at once inside the stream; the stanza itself is the first (configuration: `limits.depth`).
    package var depth = 64
    /// Elements of one stanza, itself included.
    package var elements = 4096
    /// Attributes of one element, without namespace declarations.
    package var attributes = 64
    /// Namespace declarations of one element; four times as many may be in scope at once.
    package var namespaces = 16
    /// Bytes from the start of the document to the end of the stream's start tag.
    package var headerBytes = 16 * 1024

    /// The most memory for a stanza's parsed form, besides its raw bytes.
    ///
    /// An element or attribute takes more memory than its few bytes on the wire: a stanza of hardly anything else is
    /// skipped. Ordinary ones need about their own length.
    package var parsedBytes: Int { max(4 * stanzaBytes, 64 * 1024) }

    /// Namespace declarations that may be in scope at once.
    var openNamespaces: Int { 4 * namespaces }

    package init() {}
}
