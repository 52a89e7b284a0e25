/// One received copy between wire and database: immutable bytes and spans into them, no `String`, no object tree.
package struct IncomingMessage: Sendable {
    /// The label `kind` of `upstream_stanzas_received_total`.
    package enum Kind: String, CaseIterable, Sendable {
        /// A device's message. Acked.
        case upstream
        /// A delivery receipt (`message_type: receipt`). Acked with its full id.
        case receipt
        /// Quarantined without an ack: `message_id` or `from` is unusable, or the ack would be too large.
        case malformed
    }

    /// The form of `data`, which decides the column that stores it.
    package enum DataForm: UInt8, Sendable {
        /// No `data`: both columns are SQL null.
        case absent
        /// Convertible to jsonb: column `data`.
        case json
        /// Valid JSON that jsonb refuses: column `data_raw`.
        case raw
    }

    package var kind: Kind
    package var dataForm: DataForm = .absent
    /// Why the copy must go to `quarantine`; nil for one that belongs in `messages`.
    package var quarantine: QuarantineReason?
    /// The table's `detail` for ``quarantine``: constant text, never a token, an id or payload.
    package var quarantineDetail: StaticString = ""

    /// What answers the copy once it has been stored.
    package var answer = AckAnswer.none

    /// The bytes that all spans below point into, in UTF-8.
    package var bytes: MessageBytes
    package var stanza: ByteSpan
    /// What a server repeats unchanged, by which quarantine recognises a repeated stanza: the payload's text or, in a
    /// stanza without exactly one, a form of what replaces it.
    package var payload: ByteSpan?
    /// `message_id`, unescaped; nil unless a `text` column can hold it.
    package var messageID: ByteSpan?
    /// JSON `from`, unescaped.
    package var registrationToken: ByteSpan?
    /// `category`, unescaped.
    package var category: ByteSpan?
    /// The verbatim text of `data`.
    package var data: ByteSpan?
    /// The JSON text of an object of all other members, verbatim and in order; nil if there are none.
    package var extra: ByteSpan?
    /// `message_type`, unescaped; nil where absent or null.
    package var messageType: ByteSpan?
    /// The stanza's `from` attribute; nil where absent.
    package var stanzaFrom: ByteSpan?
    /// The texts that are stored.
    package var texts: [ByteSpan?] { [messageID, registrationToken, category, data, extra, messageType, stanzaFrom] }
    /// The stanza's `to` attribute if the ack is sent from it: on an external component's connection.
    package var stanzaTo: ByteSpan?

    /// The ledger's key: the first 16 bytes of SHA-256(sender_id ‖ 0x00 ‖ message_id), or its per-device form.
    package var messageKey = Digest128(high: 0, low: 0)
    /// The content's fingerprint, as docs/protocol.md defines it.
    package var fingerprint = Digest128(high: 0, low: 0)
    /// The first 16 bytes of SHA-256(registration token).
    package var deviceKey = Digest128(high: 0, low: 0)
    /// Whether ``messageKey`` is of the per-device form (configuration key `id_scope`).
    package var isKeyedByDevice = false
    /// Whether the copy comes from the server's archive: it is acked only if its message is new.
    package var isArchived = false

    /// The sender's index in the configuration.
    package var sender: UInt16 = 0
    /// The stanza's number on its connection, modulo 2^32, where stanzas are counted (XEP-0198); else 0.
    package var stanzaNumber: UInt32 = 0
    /// When it was parsed, by the database's clock, in microseconds since 1970 UTC; stored as `received_at`.
    package var receivedAt: Int64 = 0
    /// The same in nanoseconds of the monotonic clock: a microsecond apart at least from any other copy of the worker.
    package var parsedAt: UInt64 = 0

    package init(kind: Kind, bytes: MessageBytes, stanza: ByteSpan) {
        self.kind = kind
        self.bytes = bytes
        self.stanza = stanza
    }

    package init(kind: Kind, bytes: [UInt8], stanza: ByteSpan) {
        self.init(kind: kind, bytes: MessageBytes(bytes), stanza: stanza)
    }

    /// The same message with its own bytes, so that it keeps no neighbours in memory.
    package borrowing func detached() -> IncomingMessage {
        var message = copy self
        message.bytes = MessageBytes(message.bytes)
        return message
    }
}
