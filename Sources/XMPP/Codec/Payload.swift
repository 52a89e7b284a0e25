/// The form of a device's message and of its ack (configuration keys `payload` and `ack`).
package enum Payload: Sendable, Equatable {
    /// `<gcm xmlns="google:mobile:data">`, acked in the same form.
    case gcm
    /// A JSON container (XEP-0335), as plain XMPP apps send it.
    case json(JSONPayload)
}

/// How messages in a JSON container are read and answered; fallbacks for missing members apply only if the operator
/// sets them.
package struct JSONPayload: Sendable, Equatable {
    /// The fallback for a missing `message_id` (configuration key `fallback.message_id`).
    ///
    /// Never a `<stanza-id/>` (XEP-0359): servers make a new one for each copy that a device sends, so that every
    /// resending would be another message.
    package enum MessageID: String, Sendable, CaseIterable {
        /// None: the message has no id.
        case none
        /// The device's `<origin-id/>` (XEP-0359).
        case originID = "origin_id"
        /// The `<origin-id/>`, or else the stanza's `id`.
        case stanzaID = "stanza_id"
    }

    /// The fallback for a missing `from` (configuration key `fallback.from`).
    package enum From: String, Sendable, CaseIterable {
        /// None: the message has no sender.
        case none
        /// The bare address of the stanza's sender, which its server vouches for.
        case sender
    }

    /// The first fallback for a missing `category`, before ``category`` (configuration key `fallback.category_from`).
    package enum CategoryFrom: String, Sendable, CaseIterable {
        /// Nothing.
        case none
        /// The localpart of the stanza's `to`: a component has as many as it likes.
        case localpart
    }

    package var ack: Ack
    package var messageID: MessageID
    package var from: From
    /// The first fallback for a missing `category`.
    package var categoryFrom: CategoryFrom
    /// The second fallback for a missing `category`; nil for none.
    package var category: String?

    /// By default every member is required and acks are JSON.
    package init(
        ack: Ack = .json,
        messageID: MessageID = .none,
        from: From = .none,
        categoryFrom: CategoryFrom = .none,
        category: String? = nil
    ) {
        self.ack = ack
        self.messageID = messageID
        self.from = from
        self.categoryFrom = categoryFrom
        self.category = category
    }
}
