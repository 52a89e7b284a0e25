package import XMLWire

/// Reads the acks that a server sends for what we sent it, as a replay to an endpoint does.
///
/// The opposite of ``AckEncoder``, which writes our acks for what a server sent us.
package struct ServerAckReader: Sendable {
    /// What an ack names.
    package struct Ack: Sendable, Equatable {
        /// The acked message's `message_id`, as UTF-8.
        package var messageID: [UInt8]
        /// The `to`: the acked message's registration token, as UTF-8.
        package var to: [UInt8]
    }

    private var reader = EnvelopeReader()

    package init() {}

    /// Reads a stanza that ``UpstreamCodec`` has called an ack.
    ///
    /// - Returns: Nil where it names no message.
    package mutating func read(_ stanza: Stanza) -> Ack? {
        guard let payload = stanza.child("gcm", in: XMLNamespace.payload) else { return nil }
        let range = stanza.elements[payload].text
        return stanza.bytes.withUnsafeBufferPointer { bytes in
            let text = UnsafeBufferPointer(rebasing: bytes[range])
            guard let envelope = try? reader.read(text), envelope.type == .ack,
                let id = reader.string("message_id", in: text), let to = reader.string("to", in: text)
            else { return nil }
            return Ack(messageID: Array(id.utf8), to: Array(to.utf8))
        }
    }
}
