import Querying
import UpstreamKit

/// A message as a row of a table.
enum MessageRow {
    static func columns(tokens: Bool) -> [TextTable.Column] {
        [
            TextTable.Column("RECEIVED"), TextTable.Column("KEY"), TextTable.Column("CATEGORY", minimum: 10),
            TextTable.Column("ID", minimum: 8, dropOrder: 2), TextTable.Column("DEVICE", dropOrder: 4),
        ] + (tokens ? [TextTable.Column("TOKEN", dropOrder: 3)] : [])
            + [TextTable.Column("DATA", minimum: 10, dropOrder: 1)]
    }

    static func cells(_ stored: StoredMessage, tokens: Bool) -> [String] {
        let message = stored.message
        return [
            ShownTime.short(message.receivedAtMicroseconds), message.messageKey.description, message.category,
            message.messageID, message.deviceKey.description,
        ] + (tokens ? [message.registrationToken.rawValue] : []) + [data(stored, tokens: tokens)]
    }

    /// The beginning of the data, on one line.
    static func data(_ stored: StoredMessage, tokens: Bool) -> String {
        guard var data = stored.message.data else { return "-" }
        if !tokens { data = TokenMask.mask(data) }
        return String(
            decoding: data.prefix(400).map { $0 == 0x0A || $0 == 0x0D || $0 == 0x09 ? 0x20 : $0 },
            as: UTF8.self
        )
    }
}
