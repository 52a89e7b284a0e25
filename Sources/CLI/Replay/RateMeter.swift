/// The rate over the last ten seconds.
struct RateMeter {
    private var points: [(time: ContinuousClock.Instant, count: Int64)] = []

    /// Adds a count and returns the rate per second.
    mutating func add(_ count: Int64, at time: ContinuousClock.Instant) -> Double {
        points.append((time, count))
        while let first = points.first, points.count > 2, time - first.time > .seconds(10) { points.removeFirst() }
        guard let first = points.first, time > first.time else { return 0 }
        return Double(count - first.count) / ((time - first.time) / .seconds(1))
    }
}
