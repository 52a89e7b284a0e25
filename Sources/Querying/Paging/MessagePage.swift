package import Postgres
import UpstreamKit

/// Rows of messages as the server sent them.
package struct MessagePage: Sendable {
    /// The rows; see ``Column``.
    package let result: PostgresResult
    /// Whether there may be more behind it; false for the last page.
    package let isFull: Bool

    /// Rows of a query that selected ``columns(alias:)`` first.
    package init(result: PostgresResult, isFull: Bool) {
        self.result = result
        self.isFull = isFull
    }

    /// The columns of every query for messages, in their order.
    package enum Column: Int, CaseIterable, Sendable {
        case messageKey
        case receivedAt
        case senderID
        case messageID
        case registrationToken
        case deviceKey
        case category
        case data
        case dataRaw
        case extra
        case messageType
        case stanzaFrom

        var name: String {
            switch self {
            case .messageKey: "message_key"
            case .receivedAt: "received_at"
            case .senderID: "sender_id"
            case .messageID: "message_id"
            case .registrationToken: "registration_token"
            case .deviceKey: "device_key"
            case .category: "category"
            case .data: "data"
            case .dataRaw: "data_raw"
            case .extra: "extra"
            case .messageType: "message_type"
            case .stanzaFrom: "stanza_from"
            }
        }
    }

    /// The select list of ``Column`` for the row that `alias` names.
    package static func columns(alias: String = "m") -> String {
        Column.allCases.map { "\(alias).\($0.name)" }.joined(separator: ", ")
    }

    /// The number of rows.
    package var count: Int { result.count }

    /// The place of the last row; nil for a page without rows.
    package var end: MessageCursor? { count > 0 ? cursor(count - 1) : nil }

    /// The place of a row.
    package func cursor(_ row: Int) -> MessageCursor? {
        guard let key = result.digest(row, Column.messageKey.rawValue),
            let time = result.timestamp(row, Column.receivedAt.rawValue)
        else { return nil }
        return MessageCursor(receivedAt: time, messageKey: MessageKey(key))
    }

    /// A row as a value; nil only where the server sent another shape than the table has.
    package func message(_ row: Int) -> StoredMessage? {
        func text(_ column: Column) -> String? { result.text(row, column.rawValue) }
        guard let place = cursor(row), let sender = text(.senderID), let id = text(.messageID),
            let token = text(.registrationToken), let category = text(.category),
            let device = result.digest(row, Column.deviceKey.rawValue)
        else { return nil }
        let raw = result.bytes(row, Column.dataRaw.rawValue)
        return StoredMessage(
            message: UpstreamMessage(
                messageKey: place.messageKey,
                messageID: id,
                senderID: sender,
                category: category,
                registrationToken: RegistrationToken(token),
                deviceKey: DeviceKey(device),
                data: raw ?? result.bytes(row, Column.data.rawValue),
                extra: result.bytes(row, Column.extra.rawValue),
                messageType: text(.messageType),
                receivedAtMicroseconds: place.receivedAt
            ),
            isDataRaw: raw != nil,
            stanzaFrom: text(.stanzaFrom)
        )
    }

    /// All rows as values.
    package var messages: [StoredMessage] { (0..<count).compactMap { message($0) } }
}
