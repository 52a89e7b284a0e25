import Postgres
package import UpstreamKit
package import Vocabulary

/// A row of `upstream.messages` or `upstream.conflicts`.
package struct StoredMessage: Sendable {
    /// The message as handlers see it.
    package var message: UpstreamMessage
    /// Whether `data` comes from `data_raw`, because jsonb rejects it.
    package var isDataRaw: Bool
    package var stanzaFrom: String?

    package var cursor: MessageCursor {
        MessageCursor(
            receivedAt: Timestamp(microseconds: message.receivedAtMicroseconds),
            messageKey: message.messageKey
        )
    }

    /// The fingerprint that the ledger holds for it.
    package var fingerprint: Digest128 {
        Fingerprint.compute(
            token: Array(message.registrationToken.rawValue.utf8),
            category: Array(message.category.utf8),
            messageType: message.messageType.map { Array($0.utf8) },
            data: message.data
        )
    }
}

extension StoredMessage {
    /// Reads the columns of ``MessagePage/Column``; later columns stay for the caller.
    ///
    /// - Throws: `PostgresError` of class `schema`.
    init(_ row: inout PostgresRow) throws(PostgresError) {
        let messageKey = MessageKey(try row.next(Digest128.self))
        let receivedAt = try row.next(Timestamp.self)
        let deviceKey = DeviceKey(try row.next(Digest128.self))
        let senderID = try row.next(String.self)
        let messageID = try row.next(String.self)
        let token = RegistrationToken(try row.next())
        let category = try row.next(String.self)
        let data = try row.next(JSONColumn?.self)
        let raw = try row.next(JSONColumn?.self)
        let extra = try row.next(JSONColumn?.self)
        let messageType = try row.next(String?.self)
        self.init(
            message: UpstreamMessage(
                messageKey: messageKey,
                messageID: messageID,
                senderID: senderID,
                category: category,
                registrationToken: token,
                deviceKey: deviceKey,
                data: (raw ?? data)?.utf8,
                extra: extra?.utf8,
                messageType: messageType,
                receivedAtMicroseconds: receivedAt.microseconds
            ),
            isDataRaw: raw != nil,
            stanzaFrom: try row.next()
        )
    }
}
