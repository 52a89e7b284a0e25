import Synchronization
import Telemetry
import Vocabulary

struct DevStatus {
    private let books: MessageAccounts.Snapshot
    private let acked: Int
    /// Messages that the sample handler has handled.
    let handled: Int
    private let streams: Int
    /// Copies acked a second, over the last interval.
    private var rate = 0.0
    /// The histogram's bound of the ack latency's median, in seconds, and of its 99th percentile.
    private let median: Double?
    private let slowest: Double?

    /// Reads the worker's metrics; the rate is the change since `before`.
    init(_ metrics: Metrics, before: DevStatus?, seconds: Double) {
        books = metrics.messages.snapshot()
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
            "  received    \(books.received.reduce(0, +))",
            "  stored      \(books.settled(.stored))",
            "  duplicates  \(books.settled(.duplicate))   conflicts \(books.settled(.conflict))"
                + "   quarantined \(books.settled(.quarantined))",
            "  acked       \(acked)",
            "  in flight   \(books.inFlight)",
            "  handled     \(handled)   (\(Self.handledBy))",
            "  rate        \(Int(rate.rounded())) msg/s   ack p50 \(Self.time(median))   p99 \(Self.time(slowest))",
            "  elapsed     \(elapsed) s",
        ]
        if let total, total > 0 {
            lines.append("  " + ProgressBar.meter(Double(books.settled(.stored)) / Double(total), width: 40))
        }
        return lines
    }

    var line: String {
        "received \(books.received.reduce(0, +))  stored \(books.settled(.stored))  "
            + "duplicates \(books.settled(.duplicate))  acked \(acked)  in flight \(books.inFlight)  "
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
