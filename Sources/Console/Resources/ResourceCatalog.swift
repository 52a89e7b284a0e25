import MessageStore
import Querying
import Replaying
import Resources
import UpstreamKit
import Vocabulary

// Who may see which field. A test fails for an undeclared member of an answer, and for a declared one whose value
// reaches somebody it is not for.

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

enum ResourceCatalog {
    /// The members of a message as `MessageLines` writes it, without key and fingerprint.
    private static let message: [Resource.Member] = [
        .init("received_at", Timestamp.self), .init("sender_id", String.self), .init("message_id", String.self),
        .init("category", String.self), .init("device_key", Digest128.self),
        .init("registration_token", String.self, .secret, isRequired: false),
        .init("message_type", String.self, isRequired: false), .init("stanza_from", String.self, isRequired: false),
        .any("data", secrecy: .payload), .init("data_verbatim", String.self, .payload, isRequired: false),
        .init("data_raw", String.self, .payload, isRequired: false), .any("extra", secrecy: .payload),
        .init("extra_verbatim", String.self, .payload, isRequired: false), .any("payload", "hidden"),
    ]
    private static let key = Resource.Member("message_key", MessageKey.self)

    /// All resources that are shown.
    static let all: [Resource] =
        [
            Resource(DeadLetter.self), Resource(DeadLetterGroup.self), Resource(WaitingDelivery.self),
            Resource(MessageDetail.DeliveryRow.self), Resource(AttemptRow.self),
            Resource(MessageDetail.LedgerRow.self), Resource(Replay.self), Resource(ReplayTable.HistoryEntry.self),
            Resource(ReplayDetail.self), Resource(ReplayPlan.self), Resource(ReplayPlan.HandlerCounts.self),
            Resource(ReplayPlan.Count.self), Resource(EarlierReplay.self), Resource(SampledMessage.self),
            Resource(Job.self), Resource(QuarantineRow.self), Resource(AuditEntry.self),
            Resource(HandlerView.self), Resource(HandlerWorker.self), Resource(WorkerRow.self),
            Resource(WorkerReport.Streams.self), Resource(WorkerReport.Rates.self), Resource(SenderView.self),
            Resource(PartitionPlan.self),
        ] + messages + state

    private static let messages: [Resource] = [
        Resource(
            "Message",
            about: "A message; what it does not have is left out. docs/queries.md has the members.",
            [key] + message + [.init("fingerprint", Digest128.self, .payload, isRequired: false)]
        ),
        // The release key is derived from the fingerprint, which has a stand-in where payloads are hidden.
        Resource(
            "Conflict",
            [key] + message + [
                .init("fingerprint", Digest128.self, .payload), .init("times_seen", Int.self),
                .init("last_seen_at", Timestamp.self),
                .init("release_key", MessageKey.self, .payload, isRequired: false),
                .init("released_at", Timestamp.self, isRequired: false),
                .init("released_by", String.self, isRequired: false),
            ]
        ),
        Resource(
            "MessageDetail",
            about: "What the tables hold about a message; without its body where retention has deleted it.",
            [
                key, .list("attempts", of: "Attempt", .payload), .list("deliveries", of: "DeliveryOf", .payload),
                .list("dead_letters", of: "DeliveryOf", .payload), .list("conflicts", of: "Conflict"),
                .one("ledger", "Ledger", .payload, isRequired: false),
                .init("fingerprint", Digest128.self, .payload, isRequired: false),
                .init("more_conflicts", Bool.self, isRequired: false),
                .init("conflicts_with", MessageKey.self, isRequired: false),
            ] + message.map(\.optional)
        ),
        Resource(
            "ConflictDetail",
            [
                key, .one("stored", "Message", orNull: true), .list("conflicts", of: "Conflict"),
                .init("more_conflicts", Bool.self, isRequired: false),
            ]
        ),
    ]

    /// Resources without content of devices and handlers.
    private static let state: [Resource] = [
        Resource(
            "Overview",
            about: "Rates are per second, over the workers that are alive.",
            [
                .init("at", Timestamp.self), .init("newest_message_at", Timestamp?.self), .init("in_flight", Int.self),
                .one("rates", "Rates"), .one("ack_latency_seconds", "Latency"), .list("streams", of: "Streams"),
                .list("workers", of: "Worker"), .list("handlers", of: "Handler"), .one("sizes", "Sizes"),
                .list("categories", of: "Estimate"),
            ]
        ),
        Resource(
            "Rates",
            ["received", "stored", "duplicates", "acked", "handled"].map { .init($0, Double.self) }
        ),
        Resource("Latency", [.init("p50", Double?.self), .init("p99", Double?.self)]),
        Resource(
            "Sizes",
            [
                .init("database_bytes", Int.self), .list("tables", of: "Table"), .init("days", Int.self),
                .init("days_ahead", Int.self),
            ]
        ),
        Resource(
            "Table",
            [.init("name", String.self), .init("rows_estimate", Int?.self), .init("bytes", Int.self)]
        ),
        Resource("Estimate", [.init("name", String.self), .init("rows_estimate", Int?.self)]),
        Resource(
            "Partitions",
            [
                .list("items", of: "Day"), .init("next", String?.self), .init("missing", [String].self),
                .one("policy", "Policy", orNull: true), .one("expired", "Expired"),
                .init("last_run_at", Timestamp?.self),
            ]
        ),
        Resource(
            "Policy",
            ["messages_seconds", "dedupe_window_seconds", "dead_letters_seconds", "attempts_seconds"].map {
                .init($0, Double.self)
            } + [.init("set_by", String.self), .init("set_at", Timestamp.self)]
        ),
        Resource(
            "Expired",
            [
                .init("conflicts", Int.self), .init("quarantine", Int.self), .init("dead_letters", Int.self),
                .init("ledger_estimate", Int?.self), .init("counted_to", Int.self),
            ]
        ),
        Resource(
            "WhoAmI",
            [.init("name", String.self), .init("role", String.self), .init("rights", [String].self)]
        ),
        Resource(
            "Problem",
            about: "Problem details (RFC 9457): detail says what to do.",
            ["type", "title", "detail"].map { .init($0, String.self) } + [.init("status", Int.self)]
        ),
    ]

    /// Every schema of the API's description, by name.
    static var schemas: [String: String] {
        var schemas = Dictionary(all.map { ($0.schema, $0.description) }) { first, _ in first }
        schemas["Messages"] = #"""
            {"type":"object","required":["items","next"],"properties":{"items":{"type":"array",
            "items":{"$ref":"#/components/schemas/Message"}},"next":{"type":["string","null"]},
            "estimate":{"type":"integer"}},"additionalProperties":false}
            """#
        schemas["Outcome"] = #"{"type":"object","description":"What was done; docs/api.md describes each action."}"#
        schemas["Document"] = #"{"type":"object"}"#
        return schemas
    }
}
