import MessageStore
import Querying
import Replaying
import Resources
import Vocabulary

// Who may see which field. A test fails for an undeclared member of an answer, and for a declared one whose value
// reaches somebody it is not for.

extension QuarantineRow {
    /// The stanza as a reader with this sight may see it: it is a payload as a whole.
    ///
    /// `detail` is one of the project's own sentences.
    func shown(to sight: Sight) -> QuarantineRow {
        var row = self
        if !sight.payloads { row.stanza = [] }
        return row
    }
}

extension Job: ShownResource {
    static let schema = "Job"
    static let fields: [Field<Job>] = [
        Field("id") { $0.id },
        Field("action") { $0.action },
        Field("subject") {
            $0.subject
        } redact: { row, sight, _ in
            row.subject = AuditSubject.shown(row.subject, to: sight)
        },
        Field("state", about: "planned, running, finished, cancelled, failed or expired") {
            $0.isExpired ? "expired" : $0.state
        },
        Field("planned") { $0.planned },
        Field("done") { $0.done },
        Field("skipped", about: "those that were gone by then") { $0.skipped },
        Field("groups") {
            JobGroups($0.groups)
        } redact: { row, sight, _ in
            row.groups = JobGroups.shown(row.groups, to: sight)
        },
        Field("created_by") { $0.createdBy },
        Field("created_at") { $0.createdAt },
        Field("expires_at") { $0.expiresAt },
        Field("started_by") { $0.startedBy },
        Field("started_at") { $0.startedAt },
        Field("reason") { $0.reason },
        Field("finished_at") { $0.finishedAt },
        Field("error") { $0.lastError },
    ]
}

extension SenderView: ShownResource {
    static let schema = "Sender"
    static let fields: [Field<SenderView>] = [
        Field("sender_id") { $0.senderID },
        Field("id_scopes", about: "sender or device: what its messages' keys are derived from") { $0.idScopes },
        Field("streams") { Nested($0.streams) },
    ]
}

extension PartitionPlan: ShownResource {
    static let schema = "Day"
    static let fields: [Field<PartitionPlan>] = [
        Field("day") { $0.day.start.date },
        Field("name") { $0.name },
        Field("rows_estimate") { $0.rows },
        Field("bytes") { $0.bytes },
        Field("fate") { $0.fate.rawValue },
        Field("waiting_deliveries") { $0.waiting },
        Field("dead_letters") { $0.deadLetters },
    ]
}

/// A message as ``MessageLines`` writes it.
enum ShownMessage {
    /// The members of a message, in every answer.
    static let members: [String: Secrecy] = {
        var members: [String: Secrecy] = ["registration_token": .secret]
        for name in [
            "message_key", "received_at", "sender_id", "message_id", "category", "device_key", "message_type",
            "stanza_from", "payload",
        ] { members[name] = .plain }
        for name in ["data", "data_verbatim", "data_raw", "extra", "extra_verbatim", "fingerprint"] {
            members[name] = .payload
        }
        return members
    }()

    static func members(and others: [String: Secrecy]) -> [String: Secrecy] { members.merging(others) { $1 } }
}

enum ResourceCatalog {
    /// All resources that are shown, by the names of their schemas in the API's description.
    static let all: [Resource] = rows + plain

    private static let rows: [Resource] = [
        Resource(DeadLetter.self), Resource(DeadLetterGroup.self), Resource(WaitingDelivery.self),
        Resource(MessageDetail.DeliveryRow.self), Resource(AttemptRow.self), Resource(MessageDetail.LedgerRow.self),
        Resource(Replay.self), Resource(ReplayTable.HistoryEntry.self), Resource(ReplayDetail.self),
        Resource(ReplayPlan.self), Resource(ReplayPlan.HandlerCounts.self), Resource(ReplayPlan.Count.self),
        Resource(EarlierReplay.self), Resource(SampledMessage.self),
        Resource(Job.self), Resource(AuditEntry.self), Resource(HandlerView.self), Resource(HandlerWorker.self),
        Resource(WorkerRow.self), Resource(WorkerReport.Streams.self), Resource(WorkerReport.Rates.self),
        Resource(SenderView.self), Resource(PartitionPlan.self),
        Resource("Message", ShownMessage.members),
        // The release key is derived from the fingerprint.
        Resource(
            "Conflict",
            ShownMessage.members(and: [
                "times_seen": .plain, "last_seen_at": .plain, "released_at": .plain, "released_by": .plain,
                "release_key": .payload,
            ])
        ),
        Resource(
            "MessageDetail",
            ShownMessage.members(and: [
                "more_conflicts": .plain, "conflicts_with": .plain, "conflicts": .plain, "ledger": .payload,
                "attempts": .payload, "deliveries": .payload, "dead_letters": .payload,
            ])
        ),
        Resource(
            "Stanza",
            [
                "id": .plain, "received_at": .plain, "last_seen_at": .plain, "times_seen": .plain, "bytes": .plain,
                "sender_id": .plain, "reason": .plain, "detail": .plain, "message_id": .plain,
                "stanza_base64": .secret, "stanza_masked": .payload,
            ]
        ),
    ]

    /// The schemas of those that are described, by name.
    static var schemas: [String: String] {
        Dictionary(rows.compactMap { row in row.description.map { (row.schema, $0) } }) { first, _ in first }
    }

    /// Resources without content of devices and handlers.
    private static let plain: [Resource] = [
        Resource(plain: "ConflictDetail", "message_key", "stored", "conflicts", "more_conflicts"),
        Resource(plain: "Estimate", "name", "rows_estimate"),
        Resource(
            plain: "Expired",
            "conflicts",
            "quarantine",
            "dead_letters",
            "ledger_estimate",
            "counted_to"
        ),
        Resource(plain: "Latency", "p50", "p99"),
        Resource(
            plain: "Overview",
            "at",
            "newest_message_at",
            "in_flight",
            "rates",
            "ack_latency_seconds",
            "streams",
            "workers",
            "handlers",
            "sizes",
            "categories"
        ),
        Resource(plain: "Partitions", "items", "next", "missing", "policy", "expired", "last_run_at"),
        Resource(
            plain: "Policy",
            "messages_seconds",
            "dedupe_window_seconds",
            "dead_letters_seconds",
            "attempts_seconds",
            "set_by",
            "set_at"
        ),
        Resource(plain: "Problem", "type", "status", "title", "detail"),
        Resource(plain: "Rates", "received", "stored", "duplicates", "acked", "handled"),
        Resource(plain: "Sizes", "database_bytes", "tables", "days", "days_ahead"),
        Resource(plain: "Table", "name", "rows_estimate", "bytes"),
        Resource(plain: "WhoAmI", "name", "role", "rights"),
    ]
}
