import Vocabulary
import XMLWire

extension JSONPayload {
    /// The answer to a stored message (configuration key `ack`).
    package enum Ack: String, Sendable, CaseIterable {
        /// The CCS's ack, in a JSON container.
        case json
        /// A delivery receipt (XEP-0184), if the message requests one.
        case receipt

        /// For the configuration's documents.
        package var meaning: String {
            switch self {
            case .json: "the CCS's ack in one"
            case .receipt: "a receipt (XEP-0184) where the message asks for one"
            }
        }
    }
}

/// A message's request for a receipt (XEP-0184 section 5), if any.
struct ReceiptRequest {
    /// Whether it asks.
    var isAsked: Bool
    /// The stanza's `id`, which a receipt names; nil if missing or empty.
    var id: [UInt8]?

    init(_ stanza: Stanza) {
        isAsked = stanza.child("request", in: XMLNamespace.receipts) != nil
        guard isAsked, let id = stanza.attribute("id", of: 0), !id.isEmpty else { return }
        self.id = Array(stanza.bytes[id])
    }
}

extension IncomingMessage {
    /// Answers with a receipt, if the message requests one.
    ///
    /// Whoever requests a receipt without an id (which XEP-0184 section 5.3 forbids) waits for one that can't be sent: such a
    /// message goes to quarantine, where somebody sees it.
    mutating func answer(_ request: ReceiptRequest, id: ByteSpan?) {
        guard request.isAsked else { return }
        guard let id else {
            kind = .malformed
            quarantine = .messageIDUnusable
            quarantineDetail = "a receipt is asked for, and the stanza has no id"
            return
        }
        answer = .receipt(id: id)
    }
}
