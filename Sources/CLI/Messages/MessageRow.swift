import Querying
import Resources
import UpstreamKit
import Vocabulary

enum MessageRow {
    /// The columns, in the order of ``cells(_:tokens:)``.
    ///
    /// `keyLength` is the number of characters that tell the table's keys apart; a narrow terminal shows no more.
    /// `messages show` accepts it.
    static func columns(tokens: Bool, keyLength: Int = .max) -> [TextTable.Column] {
        [
            TextTable.Column("RECEIVED", name: "received_at"),
            TextTable.Column("KEY", name: "message_key", minimum: keyLength, cut: .prefix),
            TextTable.Column("CATEGORY", minimum: 10, cut: .middle),
            TextTable.Column("ID", name: "message_id", minimum: 8, dropOrder: 1, cut: .middle),
            TextTable.Column("DEVICE", name: "device_key", dropOrder: 4),
        ] + (tokens ? [TextTable.Column("TOKEN", name: "registration_token", dropOrder: 3)] : [])
            + [
                TextTable.Column("DATA", minimum: 10, dropOrder: 2),
                .extra("SENDER", name: "sender_id"), .extra("TYPE", name: "message_type"),
                .extra("FROM", name: "stanza_from", cut: .middle), .extra("FINGERPRINT", name: "fingerprint"),
            ]
    }

    /// The number of characters, at least 8, that tell these keys apart.
    static func distinctLength(_ keys: [String]) -> Int {
        let sorted = Set(keys).sorted()
        return zip(sorted, sorted.dropFirst()).reduce(8) { length, pair in
            max(length, zip(pair.0, pair.1).prefix { $0 == $1 }.count + 1)
        }
    }

    static func cells(_ stored: StoredMessage, tokens: Bool) -> [String] {
        let message = stored.message
        return [
            ShownTime.short(message.receivedAtMicroseconds), message.messageKey.description, message.category,
            message.messageID, message.deviceKey.description,
        ] + (tokens ? [message.registrationToken.rawValue] : []) + [
            data(stored, tokens: tokens), message.senderID, message.messageType ?? "-", stored.stanzaFrom ?? "-",
            stored.fingerprint.description,
        ]
    }

    /// The values as CSV has them, in the order of ``columns(tokens:keyLength:)``.
    static func texts(_ stored: StoredMessage, tokens: Bool) -> [String?] {
        let message = stored.message
        return [
            Timestamp(microseconds: message.receivedAtMicroseconds).rfc3339, message.messageKey.description,
            message.category, message.messageID, message.deviceKey.description,
        ] + (tokens ? [message.registrationToken.rawValue] : []) + [
            json(stored, tokens: tokens), message.senderID, message.messageType, stored.stanzaFrom,
            stored.fingerprint.description,
        ]
    }

    /// `data` as JSON; nil where there is none, or jsonb would refuse it.
    static func json(_ stored: StoredMessage, tokens: Bool) -> String? {
        guard let data = stored.message.data, !stored.isDataRaw else { return nil }
        let token = stored.message.registrationToken.rawValue
        return String(decoding: tokens ? data : TokenMask.mask(data, of: token), as: UTF8.self)
    }

    /// The start of the data, on one line.
    static func data(_ stored: StoredMessage, tokens: Bool) -> String {
        guard var data = stored.message.data else { return "-" }
        if !tokens { data = TokenMask.mask(data, of: stored.message.registrationToken.rawValue) }
        return String(
            decoding: data.prefix(400).map { $0 == 0x0A || $0 == 0x0D || $0 == 0x09 ? 0x20 : $0 },
            as: UTF8.self
        )
    }
}
