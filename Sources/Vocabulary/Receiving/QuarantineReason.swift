/// Why a stanza went to `quarantine` instead of `messages`: the closed set of the table's `reason` column.
package enum QuarantineReason: String, CaseIterable, Sendable {
    /// `message_id` is absent, empty, or not a string; or a receipt (XEP-0184) is requested of a stanza without `id`.
    /// Not acked: there is nothing to ack with.
    case messageIDUnusable = "message_id_unusable"
    /// `from` is absent, empty, or not a string. Not acked.
    case fromUnusable = "from_unusable"
    /// `message_id` or `from` appears more than once in the envelope. Not acked: peers may read either.
    case identityAmbiguous = "identity_ambiguous"
    /// The payload is not one JSON object (RFC 8259); a byte order mark counts. Not acked. Or an item's container is no
    /// JSON.
    case payloadNotJSON = "payload_not_json"
    /// `gcm` holds an element, or there is more than one `gcm`, or it is empty. Not acked. Or `<body/>` holds an element,
    /// or there are several in a language: acked.
    case payloadMisplaced = "payload_misplaced"
    /// Another top-level key appears more than once. Acked.
    case duplicateKey = "duplicate_key"
    /// `category` is absent, empty, or not a string. Acked.
    case categoryUnusable = "category_unusable"
    /// `message_type` is not a string, or an unknown one. Acked.
    case messageTypeUnknown = "message_type_unknown"
    /// `message_id`, `from` or `category` holds U+0000 or a lone surrogate, which `text` can't hold. Acked.
    case textUnstorable = "text_unstorable"
    /// `message_id` or `from` is over 4,096 bytes, or `category` over 255. Acked, unless the ack would be too large.
    case fieldTooLong = "field_too_long"
    /// PostgreSQL refused the row for its content (SQLSTATE classes 22, 23, 54), alone in its transaction. Acked.
    case databaseRefused = "database_refused"
}
