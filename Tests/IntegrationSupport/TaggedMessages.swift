package import Vocabulary

/// Messages told apart by their only byte.
package func messages(_ tags: ClosedRange<UInt8>) -> [IncomingMessage] {
    tags.map { IncomingMessage(kind: .upstream, bytes: [$0], stanza: ByteSpan(start: 0, count: 1)) }
}
