import Postgres
package import Querying
import UpstreamKit
import Vocabulary

// The fields of everything that the tables hold about a message.

extension StoredMessage: ShownResource {
    package static let resource = "Message"
    package static let about: StaticString? =
        "A message; what it does not have is left out. docs/queries.md has the members."
    package static let leavesOut = true
    package static let inTables = MessageColumn.inTables.map(\.name)
    package static let fields: [Field<StoredMessage>] =
        MessageColumn.allCases.flatMap(Field.of) + [
            Field("payload", about: "hidden, where payloads are") { $0.sight.payloads ? Hidden?.none : .hidden }
        ]

    private enum Hidden: String, ShownWord { case hidden }

    /// A column's text in tables and lists of facts.
    package func cell(_ column: MessageColumn) -> String { Field.of(column).first?.tableCell(self) ?? "-" }

    /// The start of the data on one line.
    package func preview(_ length: Int) -> String? {
        shownData.map { data in
            let isWhitespace = { (byte: UInt8) in byte == 0x0A || byte == 0x0D || byte == 0x09 }
            return String(decoding: data.prefix(length).map { isWhitespace($0) ? 0x20 : $0 }, as: UTF8.self)
        }
    }
}

extension Field where Row == StoredMessage {
    /// The field of a column; for JSON also that of its exact text, where a line can't hold it.
    static func of(_ column: MessageColumn) -> [Field] {
        switch column.traits.kind {
        case .messageKey: [Field(column) { $0.message.messageKey }]
        case .deviceKey: [Field(column) { $0.message.deviceKey }]
        case .digest: [Field(column) { $0.digest(column) }]
        case .time: [Field(column) { $0.time(column) }]
        case .text: [Field(column) { $0.text(column) }]
        case .json(let verbatim):
            [
                Field(column, { $0.bytes(column).map(JSONText.init) }, cell: { $0.preview(400) ?? "-" }),
                Field(verbatim, about: "the exact text, where it has line ends", secrecy: .payload) {
                    $0.text(column).flatMap { $0.utf8.contains { $0 == 0x0A || $0 == 0x0D } ? $0 : nil }
                } redact: { row, sight, _ in
                    row.sight = sight
                },
            ]
        }
    }

    private init<Value: ShownValue>(
        _ column: MessageColumn,
        _ value: @escaping @Sendable (Row) -> Value,
        cell: (@Sendable (Row) -> String)? = nil
    ) {
        let traits = column.traits
        let redact: @Sendable (inout Row, Sight, [String]) -> Void = { row, sight, _ in row.sight = sight }
        self.init(
            traits.name,
            traits.column,
            label: traits.label,
            look: traits.look,
            secrecy: traits.secrecy,
            isNullable: !traits.isRequired,
            value,
            cell: cell,
            redact: traits.secrecy == .plain ? nil : redact
        )
    }
}

extension ConflictRow: ShownResource {
    package static let resource = "Conflict"
    package static let leavesOut = true
    package static let inTables = [
        "received_at", "message_key", "times_seen", "released_at", "category", "message_id", "data",
    ]
    package static let fields: [Field<ConflictRow>] =
        StoredMessage.fields.map { $0.name.description == "fingerprint" ? print : $0.lifted(\.copy) } + [
            Field("times_seen", TableColumn("SEEN", dropOrder: 6)) { $0.timesSeen },
            Field("last_seen_at", .extra("LAST SEEN")) { $0.lastSeenAt },
            // Derived from the fingerprint, which has a stand-in where payloads are hidden.
            Field("release_key") {
                $0.copy.sight.payloads ? $0.releaseKey : nil
            } redact: { row, sight, _ in
                row.copy.sight = sight
            },
            Field("released_at", TableColumn("RELEASED", dropOrder: 3)) { $0.releasedAt },
            Field("released_by") { $0.releasedBy },
        ]

    private static let print = Field<ConflictRow>(
        "fingerprint",
        .extra("FINGERPRINT"),
        look: .code,
        { $0.name },
        redact: { row, sight, _ in row.copy.sight = sight }
    )
}

extension MessageDetail.DeliveryRow: ShownResource {
    package static let resource = "DeliveryOf"
    package static let leavesOut = true
    package static let fields: [Field<MessageDetail.DeliveryRow>] = [
        Field("handler") { $0.handler },
        Field("attempts", about: "those that failed and count") { $0.attempts },
        Field("next_attempt_at", label: "Next attempt") { $0.nextAttemptAt },
        Field("worker", look: .code, about: "the worker that has it in hand, or made the last attempt") {
            $0.leaseOwner
        },
        Field("lease_until") { $0.leaseUntil },
        .words("error", \.lastError),
        Field("replay_id") { $0.replayID },
        .group("error_group", \.errorGroup),
        Field("died_at", label: "Died") { $0.diedAt },
    ]
}

extension AttemptRow: ShownResource {
    package static let resource = "Attempt"
    package static let about: StaticString? = "What a handler tried; kept for retention.attempts."
    package static let leavesOut = true
    package static let fields: [Field<AttemptRow>] = [
        Field("handler") { $0.handler },
        Field("attempt", label: "No.") { $0.attempt },
        Field("started_at", label: "Started", look: .moment) { $0.startedAt },
        Field("duration_seconds", label: "Took") { $0.duration?.inSeconds },
        Field("outcome") { $0.outcome },
        Field("status", about: "the HTTP status of a webhook's answer that was no success") { $0.status },
        .group("error_group", \.errorGroup),
        Field("worker", look: .code) { $0.worker },
    ]
}

extension FailedAttempt: ShownResource {
    package static let resource = "FailedAttempt"
    package static let leavesOut = true
    package static let fields: [Field<FailedAttempt>] =
        [Field("message_key", label: "Message") { $0.messageKey }] + AttemptRow.fields.map { $0.lifted(\.attempt) }
}

extension MessageDetail.LedgerRow: ShownResource {
    package static let resource = "Ledger"
    package static let leavesOut = true
    package static let fields: [Field<MessageDetail.LedgerRow>] = [
        Field("received_at") { $0.receivedAt },
        // A hash would confirm a guess at what was sent.
        .changed("fingerprint", \.fingerprint) { fingerprint, sight, _ in sight.payloads ? fingerprint : nil },
    ]
}

extension MessageDetail: ShownResource {
    package static let resource = "MessageDetail"
    package static let about: StaticString? =
        "What the tables hold about a message; without its body where retention has deleted it."
    package static let leavesOut = true
    package static let fields: [Field<MessageDetail>] =
        [Field("message_key") { $0.messageKey }] + StoredMessage.fields.dropFirst().map { $0.lifted(\.stored) } + [
            .changed("ledger", \.ledger) { ledger, sight, _ in ledger?.shown(to: sight) },
            .rows("deliveries", \.deliveries), .rows("dead_letters", \.deadLetters), .rows("attempts", \.attempts),
            Field("conflicts_with") { $0.conflictsWith },
            .rows("conflicts", \.conflicts),
            Field("more_conflicts") { $0.hasMoreConflicts ? true : Bool?.none },
        ]

    /// The message and its conflicts as a reader may see them; what handlers said stays.
    package func content(to sight: Sight) -> MessageDetail {
        var detail = self
        detail.stored = stored?.shown(to: sight)
        detail.conflicts = conflicts.map { $0.shown(to: sight) }
        return detail
    }
}

extension QuarantineRow: ShownResource {
    package static let resource = "Stanza"
    package static let leavesOut = true
    package static let fields: [Field<QuarantineRow>] = [
        Field("id", "ID") { $0.id },
        Field("received_at", "RECEIVED") { $0.receivedAt },
        Field("times_seen", TableColumn("SEEN", dropOrder: 6)) { $0.timesSeen },
        Field("last_seen_at", TableColumn("LAST SEEN", dropOrder: 3)) { $0.lastSeenAt },
        Field("dismissed_at", .extra("DISMISSED"), about: "null where it is open, or came again") { $0.dismissedAt },
        Field("reason", "REASON", look: .tag) { $0.reason },
        Field("sender_id", TableColumn("SENDER", minimum: 10, dropOrder: 2, cut: .middle), look: .code) { $0.senderID },
        Field("bytes", TableColumn("BYTES", dropOrder: 1)) { $0.byteCount },
        // One of the project's own sentences.
        Field("detail", TableColumn("DETAIL", minimum: 10, dropOrder: 4)) { $0.detail },
        Field("message_id", TableColumn("MESSAGE ID", minimum: 10, dropOrder: 5, cut: .middle), look: .code) {
            $0.messageID
        },
        // A payload as a whole.
        Field("stanza_masked", about: "as text, with what looks like a token masked") { row -> String? in
            guard !row.isVerbatim, !row.stanza.bytes.isEmpty else { return nil }
            return TerminalText.escape(bytes: StanzaMask.mask(row.stanza.bytes))
        } redact: { row, sight, _ in
            if !sight.payloads { row.stanza.bytes = [] }
        },
        Field("stanza_base64", about: "as received, with `reveal=token`", secrecy: .secret) { row -> String? in
            row.isVerbatim && !row.stanza.bytes.isEmpty ? Base64.text(row.stanza.bytes) : nil
        } redact: { row, sight, _ in
            row.isVerbatim = sight.tokens
        },
    ]
}
