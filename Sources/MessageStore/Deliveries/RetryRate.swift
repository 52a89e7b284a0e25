/// How many of the dead letters that are retried become due per second.
package struct RetryRate: Sendable {
    /// The longest that it may spread them over: what waits keeps its day from being dropped.
    private static let longest = Duration.seconds(7 * 86_400)

    package let perSecond: Double

    package init(_ perSecond: Double) { self.perSecond = perSecond }

    /// The time over which it spreads so many.
    package func time(of count: Int) -> Duration { .seconds(Double(count) / perSecond) }

    /// Why it can't spread so many; nil if it can.
    package func refusal(of count: Int) -> String? {
        time(of: count) > Self.longest ? "the last of \(count) would be due after more than 7 days" : nil
    }

    /// What the audit trail says of it.
    package var words: String {
        ", " + (perSecond == perSecond.rounded() ? "\(Int(perSecond))" : "\(perSecond)") + " per second"
    }
}
