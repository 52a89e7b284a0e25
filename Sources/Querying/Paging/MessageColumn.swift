package import Vocabulary

/// A column of `messages`, described once.
///
/// Select lists, JSON, CSV, tables, pages and the API's description come from here, in this order. Add one before
/// ``fingerprint``.
package enum MessageColumn: Int, CaseIterable, Sendable {
    case messageKey
    case receivedAt
    case senderID
    case messageID
    case category
    case deviceKey
    case registrationToken
    case messageType
    case stanzaFrom
    case data
    case dataRaw
    case extra
    /// The ledger's fingerprint, computed from the row: reading it would cost a lookup in another large table.
    case fingerprint

    package enum Kind: Sendable {
        case messageKey
        case deviceKey
        case digest
        case time
        case text
        /// JSON text, embedded as it came; the member with the exact text is written where that has line ends.
        case json(verbatim: StaticString)
    }

    package struct Traits: Sendable {
        /// The column in SQL and CSV, and the member of JSON objects.
        package var name: StaticString
        /// Its heading in pages.
        package var label: StaticString
        package var kind: Kind
        /// Its column in a terminal's table; nil for none.
        package var column: TableColumn?
        package var look: FieldLook
        /// Who may see it; what devices sent as a payload is shown masked by ``TokenMask``.
        package var secrecy: Secrecy
        /// Whether every message has it.
        package var isRequired: Bool

        fileprivate init(
            _ name: StaticString,
            _ label: StaticString,
            _ kind: Kind,
            _ column: TableColumn? = nil,
            look: FieldLook = .code,
            _ secrecy: Secrecy = .plain,
            isRequired: Bool = false
        ) {
            (self.name, self.label, self.kind, self.column) = (name, label, kind, column)
            (self.look, self.secrecy, self.isRequired) = (look, secrecy, isRequired)
        }
    }

    private var described: Traits {
        switch self {
        case .messageKey:
            Traits("message_key", "Message key", .messageKey, TableColumn("KEY", cut: .prefix), isRequired: true)
        case .receivedAt: Traits("received_at", "Received", .time, "RECEIVED", look: .moment, isRequired: true)
        case .senderID: Traits("sender_id", "Sender", .text, "SENDER", isRequired: true)
        case .messageID:
            Traits(
                "message_id",
                "Message id",
                .text,
                TableColumn("ID", minimum: 8, dropOrder: 1, cut: .middle),
                isRequired: true
            )
        case .category:
            Traits(
                "category",
                "Category",
                .text,
                TableColumn("CATEGORY", minimum: 10, cut: .middle),
                look: .tag,
                isRequired: true
            )
        case .deviceKey:
            Traits("device_key", "Device key", .deviceKey, TableColumn("DEVICE", dropOrder: 4), isRequired: true)
        case .registrationToken:
            Traits("registration_token", "Registration token", .text, TableColumn("TOKEN", dropOrder: 3), .secret)
        case .messageType: Traits("message_type", "Type", .text, "TYPE")
        case .stanzaFrom: Traits("stanza_from", "Stanza from", .text, TableColumn("FROM", minimum: 10, cut: .middle))
        case .data:
            Traits(
                "data",
                "Data",
                .json(verbatim: "data_verbatim"),
                TableColumn("DATA", minimum: 10, dropOrder: 2),
                .payload
            )
        case .dataRaw: Traits("data_raw", "Data as text", .text, nil, .payload)
        case .extra: Traits("extra", "Other members", .json(verbatim: "extra_verbatim"), nil, .payload)
        case .fingerprint: Traits("fingerprint", "Fingerprint", .digest, "FINGERPRINT", .payload)
        }
    }

    private static let all = allCases.map(\.described)

    package var traits: Traits { Self.all[rawValue] }

    package var name: String { traits.name.description }

    /// The columns that are read, in the order of select lists: a case's raw value is its place in a row.
    static let stored = allCases.filter { $0 != .fingerprint }

    /// The columns of tables, in their order; further ones are shown on request.
    package static let inTables: [MessageColumn] = [
        .receivedAt, .messageKey, .category, .messageID, .deviceKey, .registrationToken, .data,
    ]
}
