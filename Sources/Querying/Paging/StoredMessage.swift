package import UpstreamKit
package import Vocabulary

/// A row of `upstream.messages` or `upstream.conflicts`.
package struct StoredMessage: Sendable {
    /// The message as a handler sees it; `data` is the verbatim text wherever the row holds it.
    package var message: UpstreamMessage
    /// Whether `data` stands in `data_raw`, because jsonb would refuse it.
    package var isDataRaw: Bool
    /// The stanza's `from` attribute.
    package var stanzaFrom: String?

    /// Its place in the order of messages.
    package var cursor: MessageCursor {
        MessageCursor(receivedAt: message.receivedAtMicroseconds, messageKey: message.messageKey)
    }

    /// What the ledger holds as its fingerprint.
    package var fingerprint: Digest128 {
        Fingerprint.compute(
            token: Array(message.registrationToken.rawValue.utf8),
            category: Array(message.category.utf8),
            messageType: message.messageType.map { Array($0.utf8) },
            data: message.data
        )
    }
}
