/// Watches the guarantees from outside: what the servers see, and what the database holds.
final class Judge {
    /// The guarantee of docs/guarantees.md that was broken.
    enum Guarantee: String {
        case ackAfterCommit = "G1: acked only after the commit"
        case ackOnItsStream = "G2: acked once, on the stream that delivered it"
        case stored = "G3: what is odd is in quarantine"
        case storedOnce = "G4: stored once"
        case resumes = "G5: work resumes by itself"
        case memory = "G3, G5: memory stays bounded"
        case handled = "G6: handled at least once"
        case once = "G6: a function's effects exactly once"
        case limited = "limit: at most so many at once over all workers"
        case room = "a standard server's queue does not overflow: presence is withdrawn"
        case turns = "a replay gives way to live messages"
        case ordered = "ordering: device: a device's messages are handled in their order"
        case orderly = "G7: an orderly end within the grace"
        case conserved = "G8: received = settled + in flight"
        case wire = "the worker speaks XMPP"
    }

    struct Failure {
        var guarantee: Guarantee
        var text: String
        /// Nanoseconds since the start.
        var at: UInt64
    }

    private let scheduler: Scheduler
    /// Whether the database holds this message, in a state that survives.
    var isStored: (Int) -> Bool = { _ in false }
    /// Called with each message that is acked.
    var wasAcked: (Int) -> Void = { _ in }
    private(set) var failure: Failure?
    private(set) var trace: Trace
    private(set) var acks = 0
    private(set) var copies = 0

    init(_ scheduler: Scheduler, trace: Trace) { (self.scheduler, self.trace) = (scheduler, trace) }

    func fail(_ guarantee: Guarantee, _ text: @autoclosure () -> String) {
        guard failure == nil else { return }
        failure = Failure(guarantee: guarantee, text: text(), at: scheduler.now)
        note("FAILED \(guarantee.rawValue): \(failure?.text ?? "")")
    }

    /// Adds a line to the trace, whose text is made only if somebody reads it.
    func note(_ text: @autoclosure () -> String) {
        if trace.isOn { trace.add(text(), at: scheduler.now) }
    }

    func delivered(_ messages: [Int], on stream: Int) {
        copies += messages.count
        scheduler.note(UInt64(stream) << 32 | UInt64(messages.count) << 1)
        note("server → stream \(stream): \(Trace.ranges(messages))")
    }

    /// Judges an ack as the worker writes it; `unanswered` is how many copies of the message wait for one there.
    func acked(_ message: Int, on stream: Int, unanswered: Int) {
        acks += 1
        scheduler.note(UInt64(stream) << 32 | UInt64(message) << 1 | 1)
        note("worker → stream \(stream): ack \(message)")
        if unanswered < 1 {
            fail(.ackOnItsStream, "message \(message): no copy waits for an ack on stream \(stream)")
        }
        counted(message, by: "an ack")
        wasAcked(message)
    }

    /// Judges whatever lets a server forget a message.
    func counted(_ message: Int, by what: String) {
        if !isStored(message) { fail(.ackAfterCommit, "message \(message) is answered for by \(what), and not stored") }
    }
}

/// The conversation, kept only where somebody asks for it.
struct Trace {
    let isOn: Bool
    private(set) var lines: [String] = []

    mutating func add(_ text: String, at time: UInt64) {
        let seconds = time / 1_000_000_000
        let rest = String(time / 1_000 % 1_000_000 + 1_000_000).dropFirst()
        lines.append("\(seconds).\(rest) \(text)")
    }

    /// Ascending numbers as ranges: `1-5 8 10-12`.
    static func ranges(_ numbers: [Int]) -> String {
        var parts: [ClosedRange<Int>] = []
        for number in numbers {
            if let last = parts.last, last.upperBound + 1 == number {
                parts[parts.count - 1] = last.lowerBound...number
            } else {
                parts.append(number...number)
            }
        }
        return parts.map { $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)-\($0.upperBound)" }
            .joined(separator: " ")
    }
}
