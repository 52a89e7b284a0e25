package import Postgres
import Querying
package import Replaying
package import UpstreamKit
import Vocabulary

// The fields of replays.

private let amount: @Sendable (Int64) -> String = { Amount.count($0) }

extension ReplayState: ShownWord {}

extension Replay: ShownResource {
    package static let resource = "Replay"
    package static let fields: [Field<Replay>] = [
        Field("replay_id") { $0.id },
        Field("name", "NAME") { $0.name },
        Field("state", TableColumn("STATE").ofStates, { $0.state }, cell: { $0.stateInWords }),
        Field("held", about: "whether a process runs it") { $0.isHeld },
        Field("done", "DONE", { $0.done }, cell: { $0.share }),
        Field("planned", TableColumn("PLANNED", dropOrder: 1), as: amount) { $0.planned },
        Field("skipped") { $0.skipped },
        Field("created_at", TableColumn("CREATED", dropOrder: 3)) { $0.createdAt },
        Field("created_by", TableColumn("BY", minimum: 10, dropOrder: 4, cut: .middle)) { $0.createdBy },
        Field("kind") { $0.target.kind },
        Field("target", TableColumn("TO", minimum: 12, dropOrder: 2)) { $0.target.description },
        .changed("selection", \.selection) { selection, sight, _ in MessageFilter.shown(selection, to: sight) },
        Field("rate", about: "messages per second at most") { $0.pace.rate },
        Field("speed", about: "so many times as fast as they were received") { $0.pace.speed },
        Field("concurrency") { $0.pace.concurrency },
        Field("reason") { $0.reason },
        Field("started_at") { $0.startedAt },
        Field("finished_at") { $0.finishedAt },
        Field("first_received_at") { $0.span?.lowerBound },
        Field("last_received_at") { $0.span?.upperBound },
        Field("runs", about: "how often it was started from its first message") { $0.runs },
        Field("owner") { $0.owner },
        Field("lease_until") { $0.leaseUntil },
        Field("elapsed_seconds") { $0.elapsed?.inSeconds },
        .words("error", \.lastError),
    ]

    /// The state, and whether a process runs it.
    package var stateInWords: String {
        guard state == .running else { return state.rawValue }
        return isHeld ? "running" : "running, but no process runs it"
    }

    package var share: String { planned == 0 ? "-" : "\(done * 100 / planned) %" }
}

extension ReplayTable.HistoryEntry: ShownResource {
    package static let resource = "ReplayEvent"
    package static let fields: [Field<ReplayTable.HistoryEntry>] = [
        Field("at", "AT", label: "When", look: .moment) { $0.at },
        Field("event", "EVENT") { $0.event },
        Field("done", "DONE", as: amount) { $0.done },
        Field("who", TableColumn("WHO", minimum: 10, dropOrder: 1)) { $0.who },
        // For other events it is the reason given by whoever caused them.
        Field("detail", TableColumn("DETAIL", minimum: 10, dropOrder: 2)) {
            $0.detail
        } cell: {
            $0.detail ?? ""
        } redact: { row, sight, _ in
            if row.event == "failed" { row.detail = row.detail.map { sight.words($0) } }
        },
    ]
}

/// A replay with its history, and its deliveries still to be handled.
package struct ReplayDetail: Sendable, ShownResource {
    package var replay: Replay
    /// Its events, oldest first.
    package var history: [ReplayTable.HistoryEntry]
    /// Pending deliveries, and dead letters; each count stops at 100,000.
    package var waiting, dead: Int64

    package static let resource = "ReplayDetail"
    package static let fields: [Field<ReplayDetail>] =
        Replay.fields.map { $0.lifted(\.replay) } + [
            Field("waiting", about: "deliveries that handlers have yet to do") { $0.waiting },
            Field("dead_letters") { $0.dead },
            .rows("history", \.history),
        ]

    /// Reads a replay with its details, by its name or id; nil if there is none.
    package static func read(
        _ connection: isolated PostgresConnection,
        _ name: String
    ) throws(PostgresError) -> ReplayDetail? {
        try ReplayTable.find(connection, name).map { replay throws(PostgresError) in try read(connection, replay) }
    }

    package static func read(
        _ connection: isolated PostgresConnection,
        _ replay: Replay
    ) throws(PostgresError) -> ReplayDetail {
        let (history, waiting, dead) = try ReplayTable.details(connection, of: replay)
        return ReplayDetail(replay: replay, history: history, waiting: waiting, dead: dead)
    }
}

// MARK: Plans

extension ReplayPlan: ShownResource {
    package static let resource = "PlannedReplay"
    package static let fields: [Field<ReplayPlan>] = [
        Field("replay_id", about: "null where nothing is kept") { $0.id },
        Field("name") { $0.name },
        Field("target") { $0.target.description },
        Field("selected") { $0.selected },
        Field("planned") { $0.planned },
        Field("replayed_before") { $0.replayed },
        Field("replayed_before_is_included") { $0.includesReplayed },
        Field("earlier_replays", about: "each counted where it was the latest") { $0.earlier },
        Field("first_received_at") { $0.span?.lowerBound },
        Field("last_received_at") { $0.span?.upperBound },
        Field("categories") { $0.categories },
        Field("handlers") { $0.handlers },
        Field("rate") { $0.pace.rate },
        Field("speed") { $0.pace.speed },
        Field("estimated_seconds") { $0.estimate },
        Field("estimate_is_measured", about: "by earlier replays") { $0.isMeasured },
        Field("sample", about: "the first messages and the last") { $0.sample.map { SampledMessage($0.message) } },
    ]
}

extension ReplayPlan.HandlerCounts: ShownResource {
    package static let resource = "PlannedHandler"
    package static let fields: [Field<ReplayPlan.HandlerCounts>] = [
        Field("handler", "HANDLER") { $0.handler },
        Field("planned", "TO SEND", as: amount) { $0.planned },
        Field("dead", "DEAD", as: amount) { $0.dead },
        Field("before_registered", TableColumn("BEFORE IT", dropOrder: 4), as: amount) { $0.new },
        Field("handled", TableColumn("HANDLED", dropOrder: 3), as: amount) { $0.handled },
        Field("pending", TableColumn("WAITING", dropOrder: 2), as: amount) { $0.pending },
        Field("replayed_before", TableColumn("REPLAYED", dropOrder: 1), as: amount) { $0.replayed },
    ]
}

extension ReplayPlan.Count: ShownResource {
    package static let resource = "PlannedCategory"
    package static let fields: [Field<ReplayPlan.Count>] = [
        Field("count", "COUNT", as: amount) { $0.count },
        Field("category", TableColumn("CATEGORY", minimum: 20)) { $0.name },
    ]
}

extension ReplayPlan.Earlier: ShownResource {
    package static let resource = "EarlierReplay"
    package static let fields: [Field<Self>] = [Field("replay") { $0.replay }, Field("count") { $0.count }]
}

/// A message that a plan shows for many.
package struct SampledMessage: ShownResource {
    private var message: UpstreamMessage

    package init(_ message: UpstreamMessage) { self.message = message }

    package static let resource = "SampledMessage"
    package static let fields: [Field<SampledMessage>] = [
        Field("received_at", "RECEIVED") { Timestamp(microseconds: $0.message.receivedAtMicroseconds) },
        Field("message_key", "MESSAGE") { $0.message.messageKey },
        Field("device_key", TableColumn("DEVICE", dropOrder: 3)) { $0.message.deviceKey },
        Field("category", TableColumn("CATEGORY", minimum: 10, dropOrder: 1, cut: .middle)) { $0.message.category },
        Field("data_bytes", TableColumn("DATA", dropOrder: 2), as: Amount.bytes) { Int64($0.message.data?.count ?? 0) },
    ]
}
