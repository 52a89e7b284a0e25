import Vocabulary

/// A handler's rate as a token bucket that holds a second's worth, and at least one.
///
/// An attempt may begin without a token (one that may crash the worker is claimed by itself); later ones then wait
/// longer.
struct AttemptBudget: Sendable {
    /// How often to check whether more may begin.
    static let step = Duration.milliseconds(100)

    /// The most that may begin at once.
    let most: Int

    /// The least number claimed together: the tokens of one ``step``, so that a rate costs at most ten claims a second.
    let portion: Int

    private let perSecond: Double
    private var tokens: Double
    private var counted: FixedInstant?

    init(perSecond: Double) {
        self.perSecond = perSecond
        most = max(1, Int(perSecond))
        portion = max(1, Int(perSecond * Self.step.inSeconds))
        tokens = Double(most)
    }

    /// Changes the rate; what has gathered stays, as far as the new one allows.
    mutating func change(to perSecond: Double, now: ContinuousClock.Instant) {
        guard perSecond != self.perSecond else { return }
        let gathered = exact(now)
        self = Self(perSecond: perSecond)
        tokens = min(tokens, gathered)
        counted = FixedInstant(now)
    }

    /// How many may begin now; negative if more began than allowed.
    func allowed(now: ContinuousClock.Instant) -> Int { Int(exact(now).rounded(.down)) }

    mutating func spend(now: ContinuousClock.Instant) {
        tokens = exact(now) - 1
        counted = FixedInstant(max(now, counted?.wrappedValue ?? now))
    }

    private func exact(_ now: ContinuousClock.Instant) -> Double {
        guard let counted = counted?.wrappedValue, counted < now else { return tokens }
        return min(Double(most), tokens + counted.duration(to: now).inSeconds * perSecond)
    }
}
