/// When the next messages of a replay may go, as a pure value.
///
/// A rate is a bucket that fills as time goes by: what a slow target has kept waiting for up to a second may be caught
/// up with, so that the rate holds on average, and no more, so that a long stop is not followed by a flood. Original
/// pacing counts from the first message that this run sends, so that a run that goes on does not race to catch up.
package struct ReplayPacer: Sendable {
    /// What may go now.
    package enum Allowance: Sendable, Equatable {
        /// So many of the messages that were offered.
        case send(Int)
        /// None, for so many nanoseconds.
        case wait(UInt64)
    }

    private let rate: Double?
    private let speed: Double?
    private var credit = 0.0
    private var filledAt: UInt64
    private var origin: (time: UInt64, receivedAt: Int64)?

    /// The most that goes at once under a rate, as a part of a second.
    private static let quantum = 0.05
    /// How much of a delay is caught up with, in seconds.
    private static let memory = 1.0

    /// A pace from this moment on.
    ///
    /// - Parameters:
    ///   - pace: The limits.
    ///   - now: Nanoseconds of a monotonic clock, here as everywhere.
    package init(_ pace: ReplayPace, now: UInt64) {
        rate = pace.rate
        speed = pace.speed
        filledAt = now
    }

    /// Whether `received_at` has a say.
    package var needsTimes: Bool { speed != nil }

    /// How many of the next messages may go.
    ///
    /// - Parameters:
    ///   - count: How many there are to send; above 0.
    ///   - times: Their `received_at` in microseconds, where ``needsTimes`` says so; `count` of them.
    ///   - now: The present.
    /// - Returns: How many, or how long there are none.
    package mutating func allowance(of count: Int, times: [Int64], now: UInt64) -> Allowance {
        var allowed = count
        if let speed, let first = times.first {
            let origin = origin ?? (now, first)
            self.origin = origin
            let reached = origin.receivedAt + Int64(Double(now - origin.time) / 1_000 * speed)
            allowed = min(allowed, times.prefix { $0 <= reached }.count)
            if allowed == 0 {
                let ahead = Double(first - reached) / speed * 1_000
                return .wait(UInt64(min(max(ahead, 1_000_000), 1e18)))
            }
        }
        guard let rate else { return .send(allowed) }
        credit = min(credit + Double(now - filledAt) / 1e9 * rate, max(rate * Self.memory, 1))
        filledAt = now
        let batch = min(max(1, (rate * Self.quantum).rounded(.down)), Double(allowed))
        guard credit >= batch else { return .wait(UInt64(max((batch - credit) / rate * 1e9, 1_000_000))) }
        return .send(min(allowed, Int(credit)))
    }

    /// So many have been sent.
    package mutating func sent(_ count: Int) {
        if rate != nil { credit -= Double(count) }
    }
}
