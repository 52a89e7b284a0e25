import Synchronization
import Telemetry

/// The worker's state in one line, for `systemctl status`.
final class WorkerStatus: Sendable {
    private struct Counted {
        var at: ContinuousClock.Instant
        var received: UInt64
        var handled: UInt64
    }

    private let metrics: Metrics
    /// The configured connections; nil for a worker without any.
    private let connections: Int?
    private let before: Mutex<Counted>

    /// The state of a worker with this many connections, or nil for one that only runs handlers.
    init(_ metrics: Metrics, connections: Int?) {
        self.metrics = metrics
        self.connections = connections
        before = Mutex(Counted(at: .now, received: 0, handled: 0))
    }

    /// The line, with why it waits if it has not started yet; rates are since the previous call.
    ///
    /// - Returns: Text without secrets, tokens or ids.
    func line(waiting: String?, now: ContinuousClock.Instant = .now) -> String {
        if let waiting { return "waiting to start: \(waiting)" }
        let books = metrics.messages.snapshot()
        let handled = metrics.handlers.indices.reduce(UInt64(0)) { $0 + metrics.handler($1).deliveries[.done].value }
        let counted = Counted(at: now, received: books.received.reduce(0, +), handled: handled)
        let old = before.withLock { before in
            defer { before = counted }
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
            parts.append("\(rate(counted.received, old.received)) messages/s received, \(books.inFlight) in flight")
        }
        if !metrics.handlers.isEmpty { parts.append("\(rate(counted.handled, old.handled))/s handled") }
        return parts.isEmpty ? "running" : parts.joined(separator: ", ")
    }
}
