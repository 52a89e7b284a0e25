import Vocabulary
import XMLWire

/// The form of devices' messages and of their acks (configuration keys `payload` and `ack`).
package enum Payload: Sendable, Equatable {
    /// `<gcm xmlns="google:mobile:data">` alone, acked in the same form.
    case gcm
    /// What plain XMPP apps and services send.
    case plain(PlainPayload)
}

/// What in a stanza is the message (configuration key `payload`).
package enum PayloadForm: String, Sendable, CaseIterable {
    /// `<gcm xmlns="google:mobile:data">`, acked in the same form.
    case gcm
    /// A JSON container (XEP-0335) with the same members.
    case json
    /// The text of `<body/>`.
    case body
    /// The stanza itself.
    case stanza
    /// The items of a PubSub event (XEP-0060), each a message.
    case event

    /// The element that holds this form, a direct child or the stanza itself; nil if there is none.
    func element(in stanza: Stanza) -> Int? {
        switch self {
        case .gcm: stanza.child("gcm", in: XMLNamespace.payload)
        case .json: stanza.child("json", in: XMLNamespace.json)
        case .body: stanza.child("body", in: XMLNamespace.client)
        case .stanza: 0
        case .event: stanza.child("event", in: XMLNamespace.events)
        }
    }
}

/// How plain messages are read and answered; the operator sets fallbacks for missing members.
package struct PlainPayload: Sendable, Equatable {
    /// The fallback for a missing `message_id` (configuration key `fallback.message_id`).
    package enum MessageID: String, Sendable, CaseIterable {
        case none
        /// The device's `<origin-id/>` (XEP-0359).
        case originID = "origin_id"
        /// The `<origin-id/>`, or else the stanza's `id`.
        case stanzaID = "stanza_id"
        /// The same behind the sender's bare address and a space.
        case senderStanzaID = "sender_stanza_id"
        /// The `<stanza-id/>` (XEP-0359) of our own server, which makes a new one for each copy that a device sends.
        case serverID = "server_id"
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
        /// The resource of the stanza's sender, up to a slash in it.
        case resource
        /// The text of `<subject/>`.
        case subject
    }

    /// The forms by preference: the first that a stanza has is its message.
    package var forms = [PayloadForm.json]
    /// Whether a body that is JSON becomes that JSON instead of a string (configuration key `body_json`).
    package var readsJSON = false
    package var ack = Ack.json
    package var messageID = MessageID.none
    package var from = From.none
    package var categoryFrom = CategoryFrom.none
    package var category: String?

    /// The answer to a stored message (configuration key `ack`).
    package enum Ack: String, Sendable, CaseIterable {
        /// The CCS's ack, in a JSON container, for one; else as ``receipt``.
        case json
        /// A delivery receipt (XEP-0184), if the message requests one.
        case receipt
        /// Nothing.
        case none

        package var meaning: String {
            switch self {
            case .json: "the CCS's ack in a JSON container, for one"
            case .receipt: "a receipt (XEP-0184) where the message asks for one"
            case .none: "nothing"
            }
        }
    }
}

extension PlainPayload {
    /// Every member is required, and acks are JSON.
    package static var strict: PlainPayload { PlainPayload() }
}

/// The answer that a message is to get once it is stored.
enum WantedAnswer {
    case none
    case gcm
    case json
    /// A receipt, which names the stanza's `id`; nil if that is missing or empty.
    case receipt(id: [UInt8]?)

    /// The answer to a message of this form.
    ///
    /// A receipt only if it requests one, is not one itself, and is not for a group (XEP-0184 section 5). Events come
    /// from a service, which asks for nothing.
    init(_ ack: PlainPayload.Ack, to form: PayloadForm, of stanza: Stanza) {
        switch (form, ack) {
        case (.gcm, _): self = .gcm
        case (.event, _), (_, .none): self = .none
        case (.json, .json): self = .json
        case (.json, .receipt), (.body, _), (.stanza, _):
            guard stanza.child("request", in: XMLNamespace.receipts) != nil,
                stanza.child("received", in: XMLNamespace.receipts) == nil, !stanza.isForGroup
            else {
                self = .none
                return
            }
            let id = stanza.attribute("id", of: 0).map { Array(stanza.bytes[$0]) } ?? []
            self = .receipt(id: id.isEmpty ? nil : id)
        }
    }

    /// What the answer names and the payload does not hold.
    var named: [UInt8]? { if case .receipt(let id) = self { id } else { nil } }
}

extension Stanza {
    /// Whether it is a room's message (XEP-0045), whose sender is the room, with the occupant's nick as resource.
    var isForGroup: Bool { attribute("type", of: 0).map { equals($0, "groupchat") } ?? false }
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
