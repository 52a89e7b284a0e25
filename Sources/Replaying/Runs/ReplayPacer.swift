import Vocabulary

/// Decides when the next messages of a replay may be sent, as a pure value.
///
/// A rate is a token bucket of up to a second's worth: it makes up for a slow target, so that the rate holds on
/// average, but a long stop causes no flood. Original pacing counts from the first message of this run, so that a
/// resumed run does not race to catch up.
struct ReplayPacer: Sendable {
    enum Allowance: Sendable, Equatable {
        case send(Int)
        case wait(Duration)
    }

    private let rate: Double?
    private let speed: Double?
    private var credit = 0.0
    private var filledAt = 0.0
    /// When the first message was sent, and when it had been received.
    private var origin: (time: Double, receivedAt: Timestamp)?

    /// The most that is sent at once under a rate, in seconds' worth.
    private static let quantum = 0.05
    /// The bucket's capacity, in seconds' worth.
    private static let memory = 1.0
    private static let shortestWait = 0.001
    private static let longestWait = 1e9

    init(_ pace: ReplayPace) {
        rate = pace.rate
        speed = pace.speed
    }

    /// Whether ``allowance(of:times:now:)`` needs to know when messages were received.
    var needsTimes: Bool { speed != nil }

    /// How many of the next messages may be sent, or how long to wait.
    ///
    /// `count` is above 0; `times` says when each was received, if ``needsTimes``; `now` counts from the start of the
    /// run.
    mutating func allowance(of count: Int, times: [Timestamp], now: Duration) -> Allowance {
        let now = now / .seconds(1)
        var allowed = count
        if let speed, let first = times.first {
            let origin = origin ?? (now, first)
            self.origin = origin
            func due(_ time: Timestamp) -> Double { origin.time + (time - origin.receivedAt) / .seconds(1) / speed }
            allowed = min(allowed, times.prefix { due($0) <= now }.count)
            if allowed == 0 { return .wait(Self.pause(due(first) - now)) }
        }
        guard let rate else { return .send(allowed) }
        credit = min(credit + (now - filledAt) * rate, max(rate * Self.memory, 1))
        filledAt = now
        let batch = min(max(1, (rate * Self.quantum).rounded(.down)), Double(allowed))
        guard credit >= batch else { return .wait(Self.pause((batch - credit) / rate)) }
        return .send(min(allowed, Int(credit)))
    }

    mutating func sent(_ count: Int) {
        if rate != nil { credit -= Double(count) }
    }

    private static func pause(_ seconds: Double) -> Duration {
        .seconds(min(max(seconds, shortestWait), longestWait))
    }
}
