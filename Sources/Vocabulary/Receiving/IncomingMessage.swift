/// One delivered copy on its way from the wire into the database: bytes that never change, and spans into them.
///
/// This is the hot path's form of a message: no `String`, no object tree. ``UpstreamMessage`` is the form that handlers
/// see, made from the table's row.
package struct IncomingMessage: Sendable {
    /// What the copy counts as when received (`upstream_stanzas_received_total{kind}`).
    package enum Kind: UInt8, Sendable {
        /// A device's message. Acked.
        case upstream
        /// A delivery receipt (`message_type: receipt`). Acked with its full id.
        case receipt
        /// Quarantined without an ack, for want of a usable `message_id` and `from`, or for an ack's size.
        case malformed
    }

    /// What `data` holds, which decides the column it is stored in.
    package enum DataForm: UInt8, Sendable {
        /// There is no `data`: both columns are SQL null.
        case absent
        /// Castable to jsonb: column `data`.
        case json
        /// Valid JSON that jsonb refuses (U+0000, lone surrogates, out-of-range numbers, deep nesting): `data_raw`.
        case raw
    }

    /// What the copy counts as.
    package var kind: Kind
    /// What `data` holds.
    package var dataForm: DataForm = .absent
    /// Why the copy must go to `quarantine`; nil for one that belongs in `messages`.
    package var quarantine: QuarantineReason?
    /// More about ``quarantine`` for the table's `detail` column.
    ///
    /// Constant text; never a token, an id or payload.
    package var quarantineDetail: StaticString = ""

    /// Whether the copy is not acked because its ack would be longer than the server takes.
    ///
    /// Only with ``Kind/malformed``.
    package var isAckTooLarge = false

    /// Whether the device wants to be told that the copy has been stored.
    ///
    /// False where receipts (XEP-0184) are asked for message by message, and this one asks for none.
    package var isAckWanted = true

    /// All bytes that the spans below point into.
    ///
    /// UTF-8.
    package var bytes: MessageBytes
    /// The verbatim stanza.
    package var stanza: ByteSpan
    /// What a server sends unchanged when it sends the stanza again: the payload's text, or, where a stanza has not just one,
    /// a form of what stands in its place.
    ///
    /// By it quarantine knows a stanza again.
    package var payload: ByteSpan?
    /// `message_id`, unescaped; nil where the copy has none that a `text` column can hold.
    package var messageID: ByteSpan?
    /// JSON `from`, unescaped.
    package var registrationToken: ByteSpan?
    /// `category`, unescaped.
    package var category: ByteSpan?
    /// The verbatim text of `data`.
    package var data: ByteSpan?
    /// A JSON object text of all members but the known ones, in their order and verbatim; nil where there are none.
    package var extra: ByteSpan?
    /// `message_type`, unescaped; nil where absent or null.
    package var messageType: ByteSpan?
    /// The stanza's `from` attribute; nil where absent.
    package var stanzaFrom: ByteSpan?
    /// The stanza's `to` attribute, where the ack is sent from it: on an external component's connection.
    package var stanzaTo: ByteSpan?
    /// The body of the JSON string literal of `message_id` as it came, without its quotes.
    ///
    /// What an ack echoes. Where receipts are the answer, the stanza's `id`.
    package var ackMessageID: ByteSpan?
    /// The body of the JSON string literal of `from` as it came, without its quotes.
    ///
    /// An ack's `to`; empty where receipts are the answer.
    package var ackTo: ByteSpan?

    /// The ledger's key: the first 16 bytes of SHA-256(sender_id ‖ 0x00 ‖ message_id), or its per-device form.
    package var messageKey = Digest128(high: 0, low: 0)
    /// The content's fingerprint, as docs/protocol.md defines it.
    package var fingerprint = Digest128(high: 0, low: 0)
    /// The first 16 bytes of SHA-256(registration token).
    package var deviceKey = Digest128(high: 0, low: 0)

    /// Index of the sender among the configured ones.
    package var sender: UInt16 = 0
    /// The number of its stanza on its connection, modulo 2^32, where the connection counts stanzas (XEP-0198).
    ///
    /// Else 0.
    package var stanzaNumber: UInt32 = 0
    /// When the stanza was parsed: microseconds since 1970-01-01 UTC.
    ///
    /// Becomes `received_at`.
    package var receivedAt: Int64 = 0
    /// When the stanza was parsed on the monotonic clock, in nanoseconds.
    ///
    /// For the ack's latency.
    package var parsedAt: UInt64 = 0

    /// A copy of this kind over the given storage; the spans are filled in by whoever reads the envelope.
    package init(kind: Kind, bytes: MessageBytes, stanza: ByteSpan) {
        self.kind = kind
        self.bytes = bytes
        self.stanza = stanza
    }

    /// The same over a copy of these bytes.
    package init(kind: Kind, bytes: [UInt8], stanza: ByteSpan) {
        self.init(kind: kind, bytes: MessageBytes(bytes), stanza: stanza)
    }

    /// The same message with bytes of its own, which keeps nothing of its neighbours in memory.
    package borrowing func detached() -> IncomingMessage {
        var message = copy self
        message.bytes = MessageBytes(message.bytes)
        return message
    }

    /// Whether the copy is acked once its transaction has committed.
    // Inlined: a call would copy a message that is read where it stands.
    @inlinable package var isAcked: Bool {
        @inline(__always) get { withUnsafePointer(to: self) { IncomingMessage.isAcked($0) } }
    }

    /// ``isAcked`` of a message that is read where it stands.
    ///
    /// By way of `pointee` the whole message would be copied, and its bytes retained.
    @inlinable
    @inline(__always)
    package static func isAcked(_ message: UnsafePointer<IncomingMessage>) -> Bool {
        message.pointee.kind != .malformed && message.pointee.isAckWanted
    }
}
