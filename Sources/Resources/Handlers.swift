package import MessageStore
import Querying
import Vocabulary

// What is shown of handlers, and of the workers that ask for them.

extension HandlerView: ShownResource {
    package static let resource = "Handler"
    package static let about: StaticString? = "A handler; counts of counted_to are lower bounds."
    package static let fields: [Field<HandlerView>] = [
        Field("handler", "HANDLER") { $0.state.name },
        Field("state", TableColumn("STATE", minimum: 10).ofStates, { $0.word }, cell: { $0.stateInWords }),
        Field("claimed", about: "whether a worker has run it within the last two minutes") { $0.state.isClaimed },
        Field("circuit", about: "the worst of its workers; null where none runs it") { $0.breaker?.circuit },
        Field("next_probe_at") { $0.nextProbeAt },
        Field("seen_at") { $0.state.seenAt },
        Field("paused_until") { $0.state.pausedUntil },
        Field("paused_reason") { $0.state.pausedReason },
        Field("held_until", about: "Until when the handler asked for a pause (Retry-After).") { $0.state.heldUntil },
        Field("held_reason") { $0.state.heldReason },
        Field("waiting", "WAITING", { $0.state.depth }, cell: { $0.count($0.state.depth) }),
        Field("oldest_seconds", TableColumn("OLDEST", dropOrder: 2), as: Self.age) { $0.oldest },
        Field("dead_letters", "DEAD", { $0.state.deadLetters }, cell: { $0.count($0.state.deadLetters) }),
        Field("counted_to", about: "where the counts stop") { $0.countedTo },
        Field("in_progress", about: "attempts under way") { $0.running },
        Field("attempts_per_second") { $0.attempts },
        Field("failed_per_second") { $0.failed },
        Field("categories", TableColumn("CATEGORIES", minimum: 10, dropOrder: 1, cut: .middle)) {
            $0.state.categories
        } cell: {
            $0.state.categories.cell + (($0.state.pausedReason ?? $0.state.heldReason).map { "  (\($0))" } ?? "")
        },
        .clauses(\.state.clauses),
        .rows("workers", \.state.workers),
    ]

    private enum Word: String, ShownWord {
        case active, paused, unclaimed
    }

    private var word: Word { state.isPaused ? .paused : state.isClaimed ? .active : .unclaimed }

    private var oldest: Double? { state.oldestAge.map { max(0, $0.inSeconds) } }

    private static func age(_ seconds: Double?) -> String { seconds.map(Amount.time) ?? "-" }

    private func count(_ count: Int) -> String { "\(count)" + (count >= countedTo ? "+" : "") }

    private var stateInWords: String {
        if word == .active, let until = state.heldUntil { return "held until \(until.cell)" }
        guard word == .active, let breaker, breaker.isFailing else {
            return word.rawValue + (state.pausedUntil.map { " until \($0.cell)" } ?? "")
        }
        return "failing, \(breaker.probe)"
    }
}

extension HandlerWorker: ShownResource {
    package static let resource = "HandlerWorker"
    package static let fields: [Field<HandlerWorker>] = [
        Field("worker", "ASKED FOR BY") { $0.worker },
        Field("categories", TableColumn("CATEGORIES", minimum: 10, dropOrder: 1, cut: .middle)) {
            $0.categories
        } cell: {
            $0.categories.cell + ($0.isByDevice ? "  (by device)" : "")
        },
        .clauses(\.clauses),
        Field("ordered") { $0.isByDevice },
        Field("seen_at", TableColumn("LAST SEEN", dropOrder: 2)) {
            $0.seenAt
        } cell: {
            $0.seenAt.cell + ($0.isLive ? "" : "  (silent)")
        },
        Field("alive") { $0.isLive },
    ]
}

extension Field {
    /// The conditions of a handler on `data`.
    fileprivate static func clauses(_ path: any WritableKeyPath<Row, [String]> & Sendable) -> Field {
        changed("where", path) { texts, sight, _ in texts.map { HandlerClause.shown($0, to: sight) } }
    }
}

extension WorkerRow: ShownResource {
    package static let resource = "Worker"
    package static let fields: [Field<WorkerRow>] = [
        Field("instance", about: "names the process") { $0.instance },
        Field("worker") { $0.worker },
        Field("version") { $0.version },
        Field("roles") { $0.roles },
        Field("started_at") { $0.startedAt },
        Field("heartbeat_at") { $0.heartbeatAt },
        Field("alive") { $0.isAlive },
        Field("stopping") { $0.isStopping },
        Field("in_flight", about: "copies received and not yet settled") { $0.inFlight },
        Field("streams") { $0.streams },
        Field("rates") { $0.rates },
    ]
}

extension WorkerReport.Streams: ShownResource {
    package static let resource = "Streams"
    package static let fields: [Field<WorkerReport.Streams>] = [
        Field("sender") { $0.sender },
        Field("connecting") { $0.connecting },
        Field("bound") { $0.bound },
        Field("draining") { $0.draining },
    ]
}

extension WorkerReport.Rates: ShownResource {
    package static let resource = "WorkerRates"
    package static let about: StaticString? = "Rates are per second, latencies in seconds."
    package static let fields: [Field<WorkerReport.Rates>] = [
        Field("seconds", about: "the time that they were measured over") { $0.seconds },
        Field("received") { $0.received },
        Field("stored") { $0.stored },
        Field("duplicates") { $0.duplicates },
        Field("acked") { $0.acked },
        Field("handled") { $0.handled },
        Field("ack_p50") { $0.ackP50 },
        Field("ack_p99") { $0.ackP99 },
    ]
}
