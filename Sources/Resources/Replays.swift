package import Postgres
import Querying
package import Replaying
package import Vocabulary

// The fields of replays.

extension ReplayState: ShownWord {}

extension Replay: ShownResource {
    package static let schema = "Replay"
    package static let fields: [Field<Replay>] = [
        Field("replay_id") { $0.id },
        Field("name", "NAME") { $0.name },
        Field("state", TableColumn("STATE").ofStates) {
            $0.state
        } cell: {
            $0.stateInWords
        },
        Field("held", about: "whether a process runs it") { $0.isHeld },
        Field("done", "DONE") {
            $0.done
        } cell: {
            $0.share
        },
        Field("planned", TableColumn("PLANNED", dropOrder: 1)) {
            $0.planned
        } cell: {
            Amount.count($0.planned)
        },
        Field("skipped") { $0.skipped },
        Field("created_at", TableColumn("CREATED", dropOrder: 3)) { $0.createdAt },
        Field("created_by", TableColumn("BY", minimum: 10, dropOrder: 4, cut: .middle)) { $0.createdBy },
        Field("kind") { $0.target.kind },
        Field("target", TableColumn("TO", minimum: 12, dropOrder: 2)) { $0.target.description },
        Field("selection") {
            $0.selection
        } redact: { row, sight, _ in
            row.selection = MessageFilter.shown(row.selection, to: sight)
        },
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
    package static let schema = "ReplayEvent"
    package static let fields: [Field<ReplayTable.HistoryEntry>] = [
        Field("at", "AT") { $0.at },
        Field("event", "EVENT") { $0.event },
        Field("done", "DONE") {
            $0.done
        } cell: {
            Amount.count($0.done)
        },
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

    package static let schema = "ReplayDetail"
    package static let fields: [Field<ReplayDetail>] =
        Replay.fields.map { $0.lifted(\.replay) } + [
            Field("waiting", about: "deliveries that handlers have yet to do") { $0.waiting },
            Field("dead_letters") { $0.dead },
            Field("history") {
                Rows($0.history)
            } redact: { row, sight, _ in
                row.history = row.history.map { $0.shown(to: sight) }
            },
        ]

    /// Reads a replay with its details; nil if there is none.
    package static func read(
        _ connection: isolated PostgresConnection,
        _ id: Digest128
    ) throws(PostgresError) -> ReplayDetail? {
        try ReplayTable.find(connection, id.description).map { replay throws(PostgresError) in
            try read(connection, replay)
        }
    }

    package static func read(
        _ connection: isolated PostgresConnection,
        _ replay: Replay
    ) throws(PostgresError) -> ReplayDetail {
        let history = try ReplayTable.history(connection, of: replay.id)
        let (waiting, dead) = try ReplayTable.deliveries(connection, of: replay)
        return ReplayDetail(replay: replay, history: history, waiting: waiting, dead: dead)
    }
}
