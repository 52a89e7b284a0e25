import MessageStore
import Querying
import Replaying
import Vocabulary

// Who may see which field of what is shown. A member of an answer that is not declared here fails a test, and so does a
// declared one whose value reaches somebody it is not for.

extension DeadLetter: ShownResource {
    static let schema = "DeadLetter"
    static let fields = ResourceFields<DeadLetter>.of(
        .plain("handler", "message_key", "category", "received_at", "died_at", "attempts", "replay_id"),
        .group("group", \.group),
        .words("error", \.error)
    )
}

extension DeadLetterGroup: ShownResource {
    static let schema = "DeadGroup"
    static let fields = ResourceFields<DeadLetterGroup>.of(
        .plain("handler", "count", "counted_to", "first_died_at", "last_died_at"),
        .group("group", \.group)
    )
}

extension WaitingDelivery: ShownResource {
    static let schema = "Delivery"
    static let fields = ResourceFields<WaitingDelivery>.of(
        .plain("handler", "message_key", "category", "received_at", "reason", "due_at", "attempts", "worker"),
        .plain("lease_until", "paused_until", "paused_reason", "held_until", "held_reason", "replay_id", "in_block"),
        .words("error", \.error)
    )
}

extension MessageDetail.DeliveryRow: ShownResource {
    static let schema = "DeliveryOf"
    static let fields = ResourceFields<MessageDetail.DeliveryRow>.of(
        .plain("handler", "attempts", "next_attempt_at", "lease_owner", "lease_until", "replay_id", "died_at"),
        .group("error_group", \.errorGroup),
        .words("last_error", \.lastError)
    )
}

extension AttemptRow: ShownResource {
    static let schema = "Attempt"
    static let fields = ResourceFields<AttemptRow>.of(
        .plain("handler", "attempt", "started_at", "outcome", "worker", "duration_seconds", "status"),
        .group("error_group", \.errorGroup)
    )
}

extension MessageDetail.LedgerRow: ShownResource {
    static let schema = "Ledger"
    static let fields = ResourceFields<MessageDetail.LedgerRow>.of(
        .plain("received_at"),
        // Its hash would tell whether a guess at what was sent is right.
        .redacted("fingerprint") { row, sight, _ in if !sight.payloads { row.fingerprint = nil } }
    )
}

extension QuarantineRow: ShownResource {
    static let schema = "Stanza"
    // `detail` is one of the project's own sentences.
    static let fields = ResourceFields<QuarantineRow>.of(
        .plain(
            "id",
            "received_at",
            "last_seen_at",
            "times_seen",
            "bytes",
            "sender_id",
            "reason",
            "detail",
            "message_id"
        ),
        .secret("stanza_base64"),
        .redacted("stanza_masked") { row, sight, _ in if !sight.payloads { row.stanza = [] } }
    )
}

extension Replay: ShownResource {
    static let schema = "Replay"
    static let fields = ResourceFields<Replay>.of(
        .plain("replay_id", "name", "state", "held", "kind", "target", "planned", "done", "skipped", "rate", "speed"),
        .plain("concurrency", "reason", "created_by", "created_at", "started_at", "finished_at", "first_received_at"),
        .plain("last_received_at", "runs", "owner", "elapsed_seconds"),
        .words("error", \.lastError),
        .redacted("selection") { row, sight, _ in row.selection = MessageFilter.shown(row.selection, to: sight) }
    )
}

extension ReplayTable.HistoryEntry: ShownResource {
    static let schema = "ReplayEvent"
    static let fields = ResourceFields<ReplayTable.HistoryEntry>.of(
        .plain("at", "event", "who", "done"),
        // Of every other event it is the reason of whoever caused it.
        .redacted("detail") { row, sight, _ in
            if row.event == "failed" { row.detail = row.detail.map { sight.words($0) } }
        }
    )
}

extension Job: ShownResource {
    static let schema = "Job"
    static let fields = ResourceFields<Job>.of(
        .plain("id", "action", "state", "planned", "done", "skipped", "created_by", "created_at", "expires_at"),
        .plain("started_by", "started_at", "reason", "finished_at", "error"),
        .redacted("subject") { row, sight, _ in row.subject = AuditSubject.shown(row.subject, to: sight) },
        .redacted("groups") { row, sight, _ in row.groups = JobGroups.shown(row.groups, to: sight) }
    )
}

extension AuditEntry: ShownResource {
    static let schema = "AuditTrail"
    static let fields = ResourceFields<AuditEntry>.of(
        .plain("id", "at", "who", "role", "via", "action", "count", "reason"),
        .redacted("subject") { row, sight, _ in row.subject = AuditSubject.shown(row.subject, to: sight) }
    )
}

/// A message as ``MessageLines`` writes it.
enum ShownMessage {
    /// The members of a message, wherever one stands.
    static func fields<Row>(of _: Row.Type) -> ResourceFields<Row> {
        .of(
            .plain("message_key", "received_at", "sender_id", "message_id", "category", "device_key", "message_type"),
            .plain("stanza_from", "payload"),
            .secret("registration_token"),
            .payload("data", "data_verbatim", "data_raw", "extra", "extra_verbatim", "fingerprint")
        )
    }
}

extension ConflictRow: ShownResource {
    static let schema = "Conflict"
    static let fields = ResourceFields<ConflictRow>.of(
        ShownMessage.fields(of: ConflictRow.self),
        .plain("times_seen", "last_seen_at", "released_at", "released_by"),
        // It is made of the fingerprint.
        .payload("release_key")
    )
}

extension MessageDetail: ShownResource {
    static let schema = "MessageDetail"
    static let fields = ResourceFields<MessageDetail>.of(
        ShownMessage.fields(of: MessageDetail.self),
        .plain("more_conflicts", "conflicts_with", "conflicts"),
        .redacted("ledger") { row, sight, _ in row.ledger = row.ledger?.shown(to: sight) },
        .redacted("attempts") { row, sight, tokens in
            row.attempts = row.attempts.map { $0.shown(to: sight, knowing: tokens) }
        },
        .redacted("deliveries") { row, sight, tokens in
            row.deliveries = row.deliveries.map { $0.shown(to: sight, knowing: tokens) }
        },
        .redacted("dead_letters") { row, sight, tokens in
            row.deadLetters = row.deadLetters.map { $0.shown(to: sight, knowing: tokens) }
        }
    )
}

/// Every resource that is shown.
enum Resources {
    /// By the names of their schemas in the API's description.
    static let all: [Resource] = rows + plain

    private static let rows: [Resource] = [
        Resource(DeadLetter.self), Resource(DeadLetterGroup.self), Resource(WaitingDelivery.self),
        Resource(MessageDetail.DeliveryRow.self), Resource(AttemptRow.self), Resource(MessageDetail.LedgerRow.self),
        Resource(QuarantineRow.self), Resource(Replay.self), Resource(ReplayTable.HistoryEntry.self),
        Resource(Job.self), Resource(AuditEntry.self), Resource(ConflictRow.self), Resource(MessageDetail.self),
        Resource("Message", ShownMessage.fields(of: MessageDetail.self)),
        Resource(
            "ReplayDetail",
            ResourceFields<Replay>.of(Replay.fields, .plain("waiting", "dead_letters", "history"))
        ),
    ]

    /// Those that hold nothing of devices and handlers.
    private static let plain: [Resource] = [
        Resource(plain: "ConflictDetail", "message_key", "stored", "conflicts", "more_conflicts"),
        Resource(
            plain: "Day",
            "day",
            "name",
            "rows_estimate",
            "bytes",
            "fate",
            "waiting_deliveries",
            "dead_letters"
        ),
        Resource(plain: "Estimate", "name", "rows_estimate"),
        Resource(
            plain: "Expired",
            "conflicts",
            "quarantine",
            "dead_letters",
            "ledger_estimate",
            "counted_to"
        ),
        Resource(
            plain: "Handler",
            "name",
            "categories",
            "running",
            "seen_at",
            "paused",
            "paused_until",
            "paused_reason",
            "held_until",
            "held_reason",
            "circuit",
            "next_probe_at",
            "waiting",
            "oldest_seconds",
            "dead_letters",
            "counted_to",
            "in_progress",
            "attempts_per_second",
            "failed_per_second",
            "workers"
        ),
        Resource(plain: "HandlerWorker", "worker", "categories", "ordered", "seen_at", "alive"),
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
        Resource(plain: "Sender", "sender_id", "id_scopes", "streams"),
        Resource(plain: "Sizes", "database_bytes", "tables", "days", "days_ahead"),
        Resource(plain: "Streams", "sender", "connecting", "bound", "draining"),
        Resource(plain: "Table", "name", "rows_estimate", "bytes"),
        Resource(plain: "WhoAmI", "name", "role", "rights"),
        Resource(
            plain: "Worker",
            "worker",
            "version",
            "roles",
            "started_at",
            "heartbeat_at",
            "alive",
            "stopping",
            "in_flight",
            "streams",
            "rates"
        ),
        Resource(
            plain: "WorkerRates",
            "seconds",
            "received",
            "stored",
            "duplicates",
            "acked",
            "handled",
            "ack_p50",
            "ack_p99"
        ),
    ]
}
