/// What carries a device's message, and how it is answered (configuration keys `payload` and `ack`).
package enum Payload: Sendable, Equatable {
    /// `<gcm xmlns="google:mobile:data">`, acked in the same form.
    case gcm
    /// A JSON container (XEP-0335), as plain XMPP apps send it.
    case json(JSONPayload)

    /// The form of the acks.
    var ackForm: AckForm {
        switch self {
        case .gcm: .gcm
        case .json(let json): json.ack == .receipt ? .receipt : .json
        }
    }
}

/// How messages in a JSON container are read and answered: what stands in for members that a device leaves out, each only
/// where the operator says so.
package struct JSONPayload: Sendable, Equatable {
    /// What a stored message is answered with (configuration key `ack`).
    package enum Ack: String, Sendable, CaseIterable {
        /// The CCS's ack, in a JSON container.
        case json
        /// A delivery receipt (XEP-0184), where the message asks for one.
        case receipt
    }

    /// What a missing `message_id` becomes (configuration key `fallback.message_id`).
    ///
    /// Never a `<stanza-id/>` (XEP-0359): servers make a new one for each copy that a device sends, so that every resending
    /// would be another message.
    package enum MessageID: String, Sendable, CaseIterable {
        /// Nothing: the message has no id.
        case none
        /// The device's `<origin-id/>` (XEP-0359).
        case originID = "origin_id"
        /// The same, and without one the stanza's `id`.
        case stanzaID = "stanza_id"
    }

    /// What a missing `from` becomes (configuration key `fallback.from`).
    package enum From: String, Sendable, CaseIterable {
        /// Nothing: the message has no sender.
        case none
        /// The bare address of the stanza's sender, which its server vouches for.
        case sender
    }

    /// What a missing `category` becomes before ``category`` does (configuration key `fallback.category_from`).
    package enum CategoryFrom: String, Sendable, CaseIterable {
        /// Nothing.
        case none
        /// The local part of the address that the stanza went to: a component has as many as it likes.
        case localpart
    }

    /// What a stored message is answered with.
    package var ack: Ack
    /// What a missing `message_id` becomes.
    package var messageID: MessageID
    /// What a missing `from` becomes.
    package var from: From
    /// What a missing `category` becomes first.
    package var categoryFrom: CategoryFrom
    /// What a missing `category` becomes, else; nil for nothing.
    package var category: String?

    /// Without arguments: every member is required, acks are JSON.
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

/// The constant parts of an ack.
///
/// Computed, so that each use is a constant and no lazy global stands in the hot path.
enum AckForm: Sendable {
    /// `{google:mobile:data}gcm`
    case gcm
    /// `{urn:xmpp:json:0}json`
    case json
    /// `{urn:xmpp:receipts}received`
    case receipt

    /// Up to the stanza's addresses.
    ///
    /// A CCS has always had an empty `id`; client libraries take one for a fault.
    var opening: StaticString {
        switch self {
        case .gcm: "<message id=\"\""
        case .json, .receipt: "<message"
        }
    }

    /// From the addresses to the first value.
    var head: StaticString {
        switch self {
        case .gcm: "><gcm xmlns=\"google:mobile:data\">{\"to\":\""
        case .json: "><json xmlns=\"urn:xmpp:json:0\">{\"to\":\""
        case .receipt: "><received xmlns=\"urn:xmpp:receipts\" id=\""
        }
    }

    /// Between the token and the id.
    var middle: StaticString {
        switch self {
        case .gcm, .json: "\",\"message_id\":\""
        case .receipt: ""
        }
    }

    /// After the last value.
    var tail: StaticString {
        switch self {
        case .gcm: "\",\"message_type\":\"ack\"}</gcm></message>"
        case .json: "\",\"message_type\":\"ack\"}</json></message>"
        case .receipt: "\"/></message>"
        }
    }

    /// The number of bytes of all of them.
    var size: Int {
        opening.utf8CodeUnitCount + head.utf8CodeUnitCount + middle.utf8CodeUnitCount + tail.utf8CodeUnitCount
    }
}
