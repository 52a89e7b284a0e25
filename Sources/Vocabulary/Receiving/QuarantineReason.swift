/// Why a stanza went to `quarantine` instead of `messages`: the closed set of the table's `reason` column.
package enum QuarantineReason: String, CaseIterable, Sendable {
    /// `message_id` is absent, empty, or not a string. Not acked: there is nothing to ack with. Or a receipt (XEP-0184) is
    /// asked for, and the stanza has no `id` to name in it.
    case messageIDUnusable = "message_id_unusable"
    /// `from` is absent, empty, or not a string. Not acked.
    case fromUnusable = "from_unusable"
    /// The key `message_id` or `from` stands in the envelope more than once. Not acked: peers may read either.
    case identityAmbiguous = "identity_ambiguous"
    /// The payload is not one JSON object (RFC 8259); a byte order mark counts. Not acked.
    case payloadNotJSON = "payload_not_json"
    /// `gcm` holds an element, or there is more than one `gcm`, or it is empty. Not acked.
    case payloadMisplaced = "payload_misplaced"
    /// Another top-level key stands more than once. Acked.
    case duplicateKey = "duplicate_key"
    /// `category` is absent, empty, or not a string. Acked.
    case categoryUnusable = "category_unusable"
    /// `message_type` is not a string, or a string we do not know. Acked.
    case messageTypeUnknown = "message_type_unknown"
    /// `message_id`, `from` or `category` holds U+0000 or a lone surrogate, which no `text` can hold. Acked.
    case textUnstorable = "text_unstorable"
    /// `message_id` or `from` is over 4,096 bytes, or `category` over 255. Acked, unless the ack itself would be longer than
    /// the server takes.
    case fieldTooLong = "field_too_long"
    /// PostgreSQL refused the row for its content (SQLSTATE classes 22, 23, 54), alone in its transaction. Acked.
    case databaseRefused = "database_refused"
}
