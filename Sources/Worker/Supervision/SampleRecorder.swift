import Dispatcher
import MessageStore
import Telemetry
import Vocabulary

/// Makes a worker's samples from its metrics, minute by minute, and keeps those not written yet.
struct SampleRecorder {
    /// The most minutes kept while the database takes none.
    private static let limit = 60

    private let metrics: Metrics
    /// Whether this process receives.
    private let receives: Bool
    /// The minute that is being counted, since 1970 by the database's clock.
    private var minute: Int64
    private var before: Counts
    /// The indices of what was held at a heartbeat of the minute; the store is no handler's or sender's.
    private var held = Held()
    private var isFirst = true
    /// The samples of complete minutes, a minute each, the oldest first.
    private var minutes: [[Sample]] = []

    private struct Held {
        var store = false
        var senders: Set<Int> = []
        var handlers: Set<String> = []
    }

    /// The counts that samples need.
    private struct Counts {
        let all: WorkerCounts
        let senders: [UInt64]
        let durations: [Histogram.Snapshot]

        init(_ metrics: Metrics, _ now: ContinuousClock.Instant) {
            all = WorkerCounts(metrics, now)
            senders = metrics.senders.indices.map { metrics.received(sender: $0).value }
            durations = metrics.handlers.indices.map { metrics.handler($0).duration.snapshot() }
        }
    }

    /// A recorder of a process that starts at this time of the database, in microseconds since 1970.
    init(_ metrics: Metrics, receives: Bool, now: Int64) {
        (self.metrics, self.receives) = (metrics, receives)
        minute = now / Sample.minute
        before = Counts(metrics, .now)
    }

    /// The samples to write.
    var pending: [Sample] { minutes.flatMap(\.self) }

    /// Forgets the samples to write: they are written.
    mutating func written() { minutes = [] }

    /// Looks at the metrics, at each heartbeat; adds the minute's samples once it is over, or if the process ends.
    mutating func look(_ activity: [HandlerActivity], now: Int64, isEnd: Bool = false) {
        held.store = held.store || metrics.commitsWaitingForStandby.value > 0
        for index in metrics.senders.indices where metrics.connections(sender: index, state: .bound).value == 0 {
            held.senders.insert(index)
        }
        held.handlers.formUnion(activity.filter { $0.circuit != .closed }.map(\.handler))
        let current = now / Sample.minute
        // Behind after the clock was set back, too.
        guard current != minute || isEnd else { return }
        minutes.append(samples(activity))
        minutes.removeFirst(max(0, minutes.count - Self.limit))
        (minute, held, isFirst) = (current, Held(), false)
    }

    /// The samples of the minute; the next one's counts begin here.
    private mutating func samples(_ activity: [HandlerActivity]) -> [Sample] {
        let (old, new) = (before, Counts(metrics, .now))
        before = new
        func settled(_ outcome: StoreOutcome) -> UInt64 {
            new.all.messages.settled(outcome) &- old.all.messages.settled(outcome)
        }
        func times(_ new: Histogram.Snapshot, _ old: Histogram.Snapshot) -> [UInt64]? {
            let counts = zip(new.counts, old.counts).map { min($0 &- $1, UInt64(Int32.max)) }
            return counts.contains { $0 > 0 } ? counts : nil
        }
        var store = Sample(minute: minute, kind: .store)
        (store.received, store.stored) = (new.all.received &- old.all.received, settled(.stored))
        (store.duplicates, store.acked) = (settled(.duplicate), new.all.acked &- old.all.acked)
        (store.times, store.held) = (times(new.all.ackLatency, old.all.ackLatency), held.store)
        store.started = isFirst ? metrics.version : nil
        let handlers = activity.compactMap { handler -> Sample? in
            guard let index = metrics.handlers.firstIndex(of: handler.handler) else { return nil }
            let figures = metrics.handler(index)
            var sample = Sample(minute: minute, kind: .handler, subject: handler.handler)
            sample.handled = new.all.handlers[index].done &- old.all.handlers[index].done
            sample.failed = new.all.handlers[index].failed &- old.all.handlers[index].failed
            sample.times = times(new.durations[index], old.durations[index])
            (sample.waiting, sample.oldest) = (figures.waiting.value, figures.oldestDeliveryAge.value)
            sample.held = held.handlers.contains(handler.handler)
            return sample
        }
        if !handlers.isEmpty {
            store.handled = handlers.reduce(0) { $0 + ($1.handled ?? 0) }
            store.failed = handlers.reduce(0) { $0 + ($1.failed ?? 0) }
            store.waiting = handlers.reduce(0) { $0 + ($1.waiting ?? 0) }
            store.oldest = handlers.compactMap(\.oldest).max()
        }
        let senders = metrics.senders.enumerated().filter { _ in receives }.map { index, sender in
            var sample = Sample(minute: minute, kind: .sender, subject: sender)
            (sample.received, sample.held) = (new.senders[index] &- old.senders[index], held.senders.contains(index))
            return sample
        }
        return [store] + senders + handlers
    }
}
