import UpstreamKit
import Vocabulary

/// How many attempts a handler's rate allows to begin now: a token bucket that holds what a second brings, and one at least.
///
/// An attempt may begin without a token (what may crash the worker is claimed by itself); those after it then wait longer.
struct AttemptBudget: Sendable {
    /// How often it is worth looking whether more may begin.
    static let step = Duration.milliseconds(100)

    /// The most that may begin at once.
    let most: Int

    /// How many are claimed together: what one ``step`` brings, so that a rate costs ten claims a second at most.
    let portion: Int

    private let perSecond: Double
    private var tokens: Double
    private var counted: FixedInstant?

    /// A budget of which nothing has been spent.
    init(_ rate: HandlerRate) {
        perSecond = Double(rate.count) / rate.period.inSeconds
        most = max(1, Int(perSecond))
        portion = max(1, Int(perSecond * Self.step.inSeconds))
        tokens = Double(most)
    }

    /// How many may begin now; below zero where more began than were allowed.
    func allowed(now: ContinuousClock.Instant) -> Int { Int(exact(now).rounded(.down)) }

    /// An attempt begins.
    mutating func spend(now: ContinuousClock.Instant) {
        tokens = exact(now) - 1
        counted = FixedInstant(max(now, counted?.wrappedValue ?? now))
    }

    private func exact(_ now: ContinuousClock.Instant) -> Double {
        guard let counted = counted?.wrappedValue, counted < now else { return tokens }
        return min(Double(most), tokens + counted.duration(to: now).inSeconds * perSecond)
    }
}
