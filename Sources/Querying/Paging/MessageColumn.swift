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

    /// What a value is.
    package enum Kind: Sendable {
        case messageKey
        case deviceKey
        case digest
        case time
        case text
        /// JSON text, embedded as it came; the member with the exact text is written where that has line ends.
        case json(verbatim: StaticString)
    }

    /// Everything that is said of a column.
    package struct Traits: Sendable {
        /// The column in SQL and CSV, and the member of JSON objects.
        package var name: StaticString
        /// Its heading in pages.
        package var label: StaticString
        package var kind: Kind
        /// Its column in a terminal's table; nil for none.
        package var column: TableColumn?
        package var look = FieldLook.code
        /// Who may see it; what devices sent as a payload is shown masked by ``TokenMask``.
        package var secrecy = Secrecy.plain
        /// Whether every message has it.
        package var isRequired = false

        fileprivate init(_ name: StaticString, _ label: StaticString, _ kind: Kind, _ column: TableColumn? = nil) {
            (self.name, self.label, self.kind, self.column) = (name, label, kind, column)
        }

        fileprivate static func required(
            _ name: StaticString,
            _ label: StaticString,
            _ kind: Kind,
            _ column: TableColumn,
            look: FieldLook = .code
        ) -> Traits {
            var traits = Traits(name, label, kind, column)
            (traits.look, traits.isRequired) = (look, true)
            return traits
        }

        fileprivate func seen(_ secrecy: Secrecy) -> Traits {
            var traits = self
            traits.secrecy = secrecy
            return traits
        }
    }

    private var described: Traits {
        switch self {
        case .messageKey: .required("message_key", "Message key", .messageKey, TableColumn("KEY", cut: .prefix))
        case .receivedAt: .required("received_at", "Received", .time, "RECEIVED", look: .moment)
        case .senderID: .required("sender_id", "Sender", .text, "SENDER")
        case .messageID:
            .required("message_id", "Message id", .text, TableColumn("ID", minimum: 8, dropOrder: 1, cut: .middle))
        case .category:
            .required("category", "Category", .text, TableColumn("CATEGORY", minimum: 10, cut: .middle), look: .tag)
        case .deviceKey: .required("device_key", "Device key", .deviceKey, TableColumn("DEVICE", dropOrder: 4))
        case .registrationToken:
            Traits("registration_token", "Registration token", .text, TableColumn("TOKEN", dropOrder: 3)).seen(.secret)
        case .messageType: Traits("message_type", "Type", .text, "TYPE")
        case .stanzaFrom: Traits("stanza_from", "Stanza from", .text, TableColumn("FROM", minimum: 10, cut: .middle))
        case .data:
            Traits("data", "Data", .json(verbatim: "data_verbatim"), TableColumn("DATA", minimum: 10, dropOrder: 2))
                .seen(.payload)
        case .dataRaw: Traits("data_raw", "Data as text", .text).seen(.payload)
        case .extra: Traits("extra", "Other members", .json(verbatim: "extra_verbatim")).seen(.payload)
        case .fingerprint: Traits("fingerprint", "Fingerprint", .digest, "FINGERPRINT").seen(.payload)
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
