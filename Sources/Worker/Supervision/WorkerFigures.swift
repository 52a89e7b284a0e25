import Dispatcher
import MessageStore
import Synchronization
import Telemetry
import Vocabulary

/// A worker's counts at a moment.
struct WorkerCounts: Sendable {
    let at: ContinuousClock.Instant
    let messages: MessageAccounts.Snapshot
    let acked: UInt64
    let ackLatency: Histogram.Snapshot
    let handlers: [(done: UInt64, failed: UInt64)]

    init(_ metrics: Metrics, _ now: ContinuousClock.Instant) {
        at = now
        messages = metrics.messages.snapshot()
        acked = metrics.acks[.sent].value
        ackLatency = metrics.ackLatency.snapshot()
        handlers = metrics.handlers.indices.map { index in
            let deliveries = metrics.handler(index).deliveries
            let failed = deliveries[.retry].value + deliveries[.rejected].value + deliveries[.exhausted].value
            return (deliveries[.done].value, failed)
        }
    }

    var received: UInt64 { messages.received.reduce(0, +) }

    var handled: UInt64 { handlers.reduce(0) { $0 + $1.done } }
}

/// Makes a worker's row of `upstream.workers` from its metrics: current levels, and rates since the previous row.
struct WorkerFigures {
    private let metrics: Metrics
    private let start: ContinuousClock.Instant
    private var report: WorkerReport
    private var before: WorkerCounts

    /// Figures of a process that starts now.
    init(of identity: WorkerReport, _ metrics: Metrics, now: ContinuousClock.Instant) {
        report = identity
        self.metrics = metrics
        start = now
        before = WorkerCounts(metrics, now)
    }

    /// The current row; the next one's rates begin here.
    mutating func next(activity: [HandlerActivity], isStopping: Bool, now: ContinuousClock.Instant) -> WorkerReport {
        let counts = WorkerCounts(metrics, now)
        let seconds = before.at.duration(to: now).inSeconds
        func rate(_ value: UInt64, _ earlier: UInt64) -> Double {
            seconds > 0 ? (Double(value &- earlier) / seconds * 100).rounded() / 100 : 0
        }
        let (new, old) = (counts.messages, before.messages)
        report.uptime = start.duration(to: now)
        report.isStopping = isStopping
        report.inFlight = new.inFlight
        report.streams = metrics.senders.enumerated().map { index, sender in
            var streams = WorkerReport.Streams(sender: sender)
            streams.connecting = metrics.connections(sender: index, state: .connecting).value
            streams.bound = metrics.connections(sender: index, state: .bound).value
            streams.draining = metrics.connections(sender: index, state: .draining).value
            return streams
        }
        report.rates.seconds = (seconds * 1_000).rounded() / 1_000
        report.rates.received = rate(counts.received, before.received)
        report.rates.stored = rate(new.settled(.stored), old.settled(.stored))
        report.rates.duplicates = rate(new.settled(.duplicate), old.settled(.duplicate))
        report.rates.acked = rate(counts.acked, before.acked)
        report.rates.handled = rate(counts.handled, before.handled)
        var acks = counts.ackLatency
        for index in acks.counts.indices { acks.counts[index] &-= before.ackLatency.counts[index] }
        let bounds = metrics.ackLatency.bounds
        // Values above the highest bound are only known to exceed it.
        report.rates.ackP50 = acks.bound(below: 0.5, in: bounds).map { min($0, bounds.last ?? 0) }
        report.rates.ackP99 = acks.bound(below: 0.99, in: bounds).map { min($0, bounds.last ?? 0) }
        let ahead = metrics.clockAhead.value
        report.rates.clockAhead = ahead.isNaN ? nil : (ahead * 1_000).rounded() / 1_000
        report.handlers = activity.map { handler in
            let index = metrics.handlers.firstIndex(of: handler.handler)
            let (now, was) = (index.map { counts.handlers[$0] }, index.map { before.handlers[$0] })
            let failures = rate(now?.failed ?? 0, was?.failed ?? 0)
            var row = WorkerReport.Handler(handler: handler.handler, circuit: handler.circuit.rawValue)
            row.nextProbe = handler.nextProbe?.inSeconds
            row.isPaused = handler.isPaused
            (row.running, row.waiting, row.lastFailure) = (handler.running, handler.waiting, handler.lastFailure)
            (row.attempts, row.failed) = (rate(now?.done ?? 0, was?.done ?? 0) + failures, failures)
            row.failedInRow = handler.failedInRow
            return row
        }
        report.certificates = metrics.certificates.all.map {
            WorkerReport.Certificate(
                certificate: $0.kind.rawValue,
                name: $0.name,
                endsAt: Int($0.end.microseconds / 1_000_000)
            )
        }
        before = counts
        return report
    }
}

/// The worker's state in one line, for `systemctl status`.
final class WorkerStatus: Sendable {
    private let metrics: Metrics
    /// The configured connections; nil for a worker without any.
    private let connections: Int?
    private let before: Mutex<WorkerCounts>

    /// The state of a worker with this many connections, or nil for one that only runs handlers.
    init(_ metrics: Metrics, connections: Int?) {
        self.metrics = metrics
        self.connections = connections
        before = Mutex(WorkerCounts(metrics, .now))
    }

    /// The line, with why it waits to start, if it does, and rates since the previous call; without secrets, tokens or
    /// ids.
    func line(waiting: String?, now: ContinuousClock.Instant = .now) -> String {
        if let waiting { return "waiting to start: \(waiting)" }
        let counts = WorkerCounts(metrics, now)
        let old = before.withLock { before in
            defer { before = counts }
            return before
        }
        let seconds = old.at.duration(to: now) / .seconds(1)
        func rate(_ new: UInt64, _ old: UInt64) -> Double {
            seconds > 0 ? (Double(new &- old) / seconds * 10).rounded() / 10 : 0
        }
        var parts: [String] = []
        if let connections {
            let bound = metrics.senders.indices.reduce(0) { $0 + metrics.connections(sender: $1, state: .bound).value }
            parts.append("\(bound) of \(connections) streams bound")
            let received = rate(counts.received, old.received)
            parts.append("\(received) messages/s received, \(counts.messages.inFlight) in flight")
        }
        if !metrics.handlers.isEmpty { parts.append("\(rate(counts.handled, old.handled))/s handled") }
        return parts.isEmpty ? "running" : parts.joined(separator: ", ")
    }
}
