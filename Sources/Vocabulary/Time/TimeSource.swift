/// The clock and random source of retries, injectable for tests.
package struct TimeSource: Sendable {
    package var now: @Sendable () -> ContinuousClock.Instant
    /// Waits; throws when cancelled.
    package var sleep: @Sendable (Duration) async throws -> Void
    /// A random number in 0...1.
    package var random: @Sendable () -> Double

    package init(
        now: @escaping @Sendable () -> ContinuousClock.Instant,
        sleep: @escaping @Sendable (Duration) async throws -> Void,
        random: @escaping @Sendable () -> Double
    ) {
        self.now = now
        self.sleep = sleep
        self.random = random
    }

    package static let system = TimeSource(
        now: { ContinuousClock.now },
        sleep: { try await ContinuousClock().sleep(for: $0) },
        random: { RandomSource.system.fraction() }
    )
}
