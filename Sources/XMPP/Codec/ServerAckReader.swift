package import XMLWire

/// Reads a server's acks for what we sent, as in a replay to an endpoint: the opposite of ``AckEncoder``.
package struct ServerAckReader: Sendable {
    private var reader = EnvelopeReader()

    package init() {}

    /// Reads a stanza that ``UpstreamCodec`` has decoded as an ack; nil if it names no message.
    package mutating func read(_ stanza: Stanza) -> (messageID: String, to: String)? {
        guard let payload = stanza.child("gcm", in: XMLNamespace.payload) else { return nil }
        let range = stanza.elements[payload].text
        return stanza.bytes.withUnsafeBufferPointer { bytes in
            let text = UnsafeBufferPointer(rebasing: bytes[range])
            guard let envelope = try? reader.read(text), envelope.type == .ack,
                let id = reader.string("message_id", in: text), let to = reader.string("to", in: text)
            else { return nil }
            return (id, to)
        }
    }
}
