import HTTPTypes
import MessageStore
import Querying
import Replaying
package import Resources
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

extension Principal: ShownResource {
    package static let schema = "WhoAmI"
    package static let fields: [Field<Principal>] = [
        Field("name") { $0.name },
        Field("role") { $0.role.word },
        Field("rights") { ConsoleRight.allCases.filter($0.may).map(\.rawValue) },
    ]
}

extension Problem: ShownResource {
    package static let schema = "Problem"
    package static let about: StaticString? = "Problem details (RFC 9457): detail says what to do."
    package static let fields: [Field<Problem>] = [
        Field("type") { "/problems/" + $0.kind },
        Field("status") { $0.status.code },
        Field("title") { $0.title },
        Field("detail") { $0.detail },
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
    /// All resources that are shown.
    static let all: [Resource] =
        [
            Resource(DeadLetter.self), Resource(DeadLetterGroup.self), Resource(WaitingDelivery.self),
            Resource(MessageDetail.DeliveryRow.self), Resource(AttemptRow.self),
            Resource(MessageDetail.LedgerRow.self), Resource(Replay.self), Resource(ReplayTable.HistoryEntry.self),
            Resource(ReplayDetail.self), Resource(ReplayPlan.self), Resource(ReplayPlan.HandlerCounts.self),
            Resource(ReplayPlan.Count.self), Resource(ReplayPlan.Earlier.self), Resource(SampledMessage.self),
            Resource(Job.self), Resource(QuarantineRow.self), Resource(AuditEntry.self),
            Resource(HandlerView.self), Resource(HandlerWorker.self), Resource(WorkerRow.self),
            Resource(WorkerReport.Streams.self), Resource(WorkerReport.Rates.self), Resource(SenderView.self),
            Resource(PartitionPlan.self), Resource(StoredMessage.self), Resource(ConflictRow.self),
            Resource(MessageDetail.self),
        ] + state

    private static let state: [Resource] = [
        Resource(
            "ConflictDetail",
            [
                .init("message_key", MessageKey.self), .init("stored", Nested<StoredMessage>?.self),
                .init("conflicts", Rows<ConflictRow>.self), .init("more_conflicts", Bool.self, isRequired: false),
            ]
        ),
        Resource(Overview.self), Resource(Overview.Rates.self), Resource(Overview.Latency.self),
        Resource(Overview.Sizes.self), Resource(StoreStatistics.Table.self), Resource(StoreStatistics.Category.self),
        Resource(RetentionView.self), Resource(RetentionPolicyInForce.self), Resource(RetentionView.Expired.self),
        Resource(Principal.self), Resource(Problem.self),
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
