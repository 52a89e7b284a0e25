import Postgres
package import UpstreamKit
package import Vocabulary

package struct StoredMessage: Sendable {
    /// The message as handlers see it, with its token and payload.
    package let message: UpstreamMessage
    /// What is shown of it: neither token nor payload by default.
    package var sight = Sight(tokens: false, payloads: false)
    private let values: MessageRow

    init(_ values: MessageRow) throws(PostgresError) {
        self.values = values
        let data: JSONColumn? = try values.value(.data)
        let raw: JSONColumn? = try values.value(.dataRaw)
        let extra: JSONColumn? = try values.value(.extra)
        message = UpstreamMessage(
            messageKey: values.cursor.messageKey,
            messageID: try values.value(.messageID),
            senderID: try values.value(.senderID),
            category: try values.value(.category),
            registrationToken: RegistrationToken(try values.value(.registrationToken)),
            deviceKey: values.deviceKey,
            data: (raw ?? data)?.utf8,
            extra: extra?.utf8,
            messageType: try values.value(.messageType),
            receivedAtMicroseconds: values.cursor.receivedAt.microseconds
        )
    }

    /// Whether the data is in `data_raw`, because jsonb rejects it.
    package var isDataRaw: Bool { !values.isNull(.dataRaw) }

    package var cursor: MessageCursor { values.cursor }

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
