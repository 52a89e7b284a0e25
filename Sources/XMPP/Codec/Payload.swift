import Vocabulary
import XMLWire

/// The form of a device's message and of its ack (configuration keys `payload` and `ack`).
package enum Payload: Sendable, Equatable {
    /// `<gcm xmlns="google:mobile:data">`, acked in the same form.
    case gcm
    /// A JSON container (XEP-0335), as plain XMPP apps send it.
    case json(JSONPayload)
}

/// How messages in a JSON container are read and answered; the operator sets fallbacks for missing members.
package struct JSONPayload: Sendable, Equatable {
    /// The fallback for a missing `message_id` (configuration key `fallback.message_id`): never a `<stanza-id/>`
    /// (XEP-0359), which servers make anew for each copy that a device sends.
    package enum MessageID: String, Sendable, CaseIterable {
        case none
        /// The device's `<origin-id/>` (XEP-0359).
        case originID = "origin_id"
        /// The `<origin-id/>`, or else the stanza's `id`.
        case stanzaID = "stanza_id"
    }

    /// The fallback for a missing `from` (configuration key `fallback.from`).
    package enum From: String, Sendable, CaseIterable {
        case none
        /// The bare address of the stanza's sender, which its server vouches for.
        case sender
    }

    /// The first fallback for a missing `category`, before ``category`` (configuration key `fallback.category_from`).
    package enum CategoryFrom: String, Sendable, CaseIterable {
        case none
        /// The localpart of the stanza's `to`: a component has as many as it likes.
        case localpart
    }

    package var ack = Ack.json
    package var messageID = MessageID.none
    package var from = From.none
    package var categoryFrom = CategoryFrom.none
    package var category: String?

    /// The answer to a stored message (configuration key `ack`).
    package enum Ack: String, Sendable, CaseIterable {
        /// The CCS's ack, in a JSON container.
        case json
        /// A delivery receipt (XEP-0184), if the message requests one.
        case receipt

        package var meaning: String {
            switch self {
            case .json: "the CCS's ack in one"
            case .receipt: "a receipt (XEP-0184) where the message asks for one"
            }
        }
    }
}

extension JSONPayload {
    /// Every member is required, and acks are JSON.
    package static var strict: JSONPayload { JSONPayload() }
}

/// The answer that a message is to get once it is stored.
enum WantedAnswer {
    case none
    case gcm
    case json
    /// A receipt, which names the stanza's `id`; nil if that is missing or empty.
    case receipt(id: [UInt8]?)

    /// The answer to a message in a JSON container: a receipt only if it requests one (XEP-0184 section 5).
    init(_ ack: JSONPayload.Ack, to stanza: Stanza) {
        switch ack {
        case .json: self = .json
        case .receipt where stanza.child("request", in: XMLNamespace.receipts) == nil: self = .none
        case .receipt:
            let id = stanza.attribute("id", of: 0).map { Array(stanza.bytes[$0]) } ?? []
            self = .receipt(id: id.isEmpty ? nil : id)
        }
    }

    /// What the answer names and the payload does not hold.
    var named: [UInt8]? { if case .receipt(let id) = self { id } else { nil } }
}

extension IncomingMessage {
    /// Sets the answer, given the literals of `message_id` and `from`, and the place of ``WantedAnswer/named``.
    mutating func answer(_ wanted: WantedAnswer, id: ByteSpan, to: ByteSpan, named: ByteSpan?) {
        switch (wanted, named) {
        case (.none, _): break
        case (.gcm, _): answer = .gcm(id: id, to: to)
        case (.json, _): answer = .json(id: id, to: to)
        case (.receipt, let named?): answer = .receipt(id: named)
        case (.receipt, nil):
            // A receipt for no id (XEP-0184 section 5.3 forbids it) can't be sent: in quarantine somebody sees that.
            kind = .malformed
            quarantine = .messageIDUnusable
            quarantineDetail = "a receipt is asked for, and the stanza has no id"
        }
    }
}
