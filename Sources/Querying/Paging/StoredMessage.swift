import Postgres
package import UpstreamKit
package import Vocabulary

/// A row of `upstream.messages` or `upstream.conflicts`.
package struct StoredMessage: Sendable {
    /// The message as handlers see it, with its token and payload.
    package let message: UpstreamMessage
    /// What is shown of it: neither token nor payload by default.
    package var sight = Sight(tokens: false, payloads: false)
    private let values: RowFields

    /// Reads a row.
    ///
    /// - Throws: `PostgresError` of class `schema`.
    init(_ values: RowFields) throws(PostgresError) {
        self.values = values
        let data = try values.value(.data, as: JSONColumn?.self)
        let raw = try values.value(.dataRaw, as: JSONColumn?.self)
        message = UpstreamMessage(
            messageKey: values.keys.cursor.messageKey,
            messageID: try values.value(.messageID),
            senderID: try values.value(.senderID),
            category: try values.value(.category),
            registrationToken: RegistrationToken(try values.value(.registrationToken)),
            deviceKey: values.keys.deviceKey,
            data: (raw ?? data)?.utf8,
            extra: try values.value(.extra, as: JSONColumn?.self)?.utf8,
            messageType: try values.value(.messageType),
            receivedAtMicroseconds: values.keys.cursor.receivedAt.microseconds
        )
    }

    /// Whether the data is in `data_raw`, because jsonb rejects it.
    package var isDataRaw: Bool { !values.isNull(.dataRaw) }

    package var cursor: MessageCursor { values.keys.cursor }

    // MARK: What is shown

    /// The data as shown, from `data` or `data_raw`.
    package var shownData: [UInt8]? { bytes(.dataRaw) ?? bytes(.data) }

    /// A text's or JSON's bytes as shown; nil for null, and for what is not.
    package func bytes(_ column: MessageColumn) -> [UInt8]? {
        guard shows(column), !values.isNull(column) else { return nil }
        return values.withText(column, isMasked: sight.masks(column.traits.secrecy)) { Array($0) }
    }

    /// A text or JSON as shown; nil for null, and for what is not.
    package func text(_ column: MessageColumn) -> String? { bytes(column).map { String(decoding: $0, as: UTF8.self) } }

    /// A digest as shown; nil for null, and for what is not.
    package func digest(_ column: MessageColumn) -> Digest128? { shows(column) ? values.digest(column) : nil }

    package func time(_ column: MessageColumn) -> Timestamp? { shows(column) ? values.time(column) : nil }

    private func shows(_ column: MessageColumn) -> Bool { sight.shows(column.traits.secrecy) }
}
