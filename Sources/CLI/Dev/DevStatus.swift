import Synchronization
import Telemetry
import Vocabulary

struct DevStatus {
    /// Copies read from the wire.
    let received: Int
    let stored: Int
    let duplicates: Int
    let conflicts: Int
    let quarantined: Int
    let acked: Int
    /// Messages that the sample handler has handled.
    let handled: Int
    /// Copies between the wire and the database.
    let inFlight: Int
    let streams: Int
    /// Copies acked a second, over the last interval.
    private(set) var rate = 0.0
    /// The histogram's bound of the ack latency's median, in seconds, and of its 99th percentile.
    let median: Double?
    let slowest: Double?

    /// Reads the worker's metrics; the rate is the change since `before`.
    init(_ metrics: Metrics, before: DevStatus?, seconds: Double) {
        let books = metrics.messages.snapshot()
        received = Int(books.received.reduce(0, +))
        stored = Int(books.settled(.stored))
        duplicates = Int(books.settled(.duplicate))
        conflicts = Int(books.settled(.conflict))
        quarantined = Int(books.settled(.quarantined))
        inFlight = books.inFlight
        acked = Int(metrics.acks[.sent].value)
        handled = metrics.handlers.indices.reduce(0) { $0 + Int(metrics.handler($1).deliveries[.done].value) }
        streams = metrics.senders.indices.reduce(0) { sum, sender in
            sum + metrics.connections(sender: sender, state: .bound).value
                + metrics.connections(sender: sender, state: .draining).value
        }
        let latency = metrics.ackLatency.snapshot()
        median = latency.bound(below: 0.5, in: metrics.ackLatency.bounds)
        slowest = latency.bound(below: 0.99, in: metrics.ackLatency.bounds)
        if let before, seconds > 0 { rate = Double(acked - before.acked) / seconds }
    }

    /// The screen's lines, without line ends.
    ///
    /// `elapsed` is in seconds; `total` is the expected number of messages, nil for no limit.
    func screen(elapsed: Int, total: Int?) -> [String] {
        var lines = [
            "  streams     \(streams) bound",
            "  received    \(received)",
            "  stored      \(stored)",
            "  duplicates  \(duplicates)   conflicts \(conflicts)   quarantined \(quarantined)",
            "  acked       \(acked)",
            "  in flight   \(inFlight)",
            "  handled     \(handled)   (\(Self.handledBy))",
            "  rate        \(Int(rate.rounded())) msg/s   ack p50 \(Self.time(median))   p99 \(Self.time(slowest))",
            "  elapsed     \(elapsed) s",
        ]
        if let total, total > 0 { lines.append("  " + ProgressBar.meter(Double(stored) / Double(total), width: 40)) }
        return lines
    }

    var line: String {
        "received \(received)  stored \(stored)  duplicates \(duplicates)  acked \(acked)  in flight \(inFlight)  "
            + "handled \(handled)  "
            + "\(Int(rate.rounded())) msg/s  ack p50 \(Self.time(median)) p99 \(Self.time(slowest))"
    }

    /// Why fewer messages are handled than stored.
    static let handledBy = "the sample handler takes \(DevRun.handledCategory) only"

    func average(over elapsed: Duration) -> String {
        let seconds = max(elapsed / .seconds(1), 0.001)
        return "\(Amount.decimal(Double(acked) / seconds)) acks/s over \(Amount.time(seconds))"
    }

    static func time(_ seconds: Double?) -> String {
        guard let seconds else { return "-" }
        guard seconds.isFinite else { return ">30 s" }
        return "≤" + Amount.time(seconds)
    }
}

/// The live status of `dev`, until the run stops.
final class DevScreen: Sendable {
    private let console: Terminal
    private let block: Mutex<LiveBlock?>

    init(_ console: Terminal) {
        self.console = console
        block = Mutex(LiveBlock(console, on: console.errors))
    }

    /// Replaces the displayed lines; does nothing once the run stops.
    func show(_ lines: [String]) {
        block.withLock { $0?.show(lines) }
    }

    /// Prints that the run stops, below the last status.
    func stop(_ message: String) {
        block.withLock { block in
            block = nil
            console.message(message)
        }
    }
}
