import MessageStore
import Synchronization

/// The workers' recent rates, for the overview's charts.
///
/// Filled by readers: an open page asks every few seconds; without one, nothing is read.
final class RateHistory: Sendable {
    /// The sums over the living workers at one moment.
    struct Sample: Sendable {
        var at: ContinuousClock.Instant
        var received = 0.0
        var stored = 0.0
        var handled = 0.0
        /// The slowest worker's, in seconds.
        var latency = 0.0
    }

    /// The number of samples kept: ten minutes of one every five seconds.
    private static let limit = 120

    private let samples = Mutex<[Sample]>([])

    /// Adds a sample and returns all, oldest first.
    func add(_ workers: [WorkerRow], at now: ContinuousClock.Instant = .now) -> [Sample] {
        var sample = Sample(at: now)
        for worker in workers where worker.isAlive {
            sample.received += worker.rates.received
            sample.stored += worker.rates.stored
            sample.handled += worker.rates.handled
            sample.latency = max(sample.latency, worker.rates.ackP99 ?? 0)
        }
        return samples.withLock { samples in
            // A line must not join samples that a pause separates.
            if let last = samples.last, now - last.at > .seconds(60) { samples = [] }
            if let last = samples.last, now - last.at < .seconds(4) {
                samples[samples.count - 1] = sample
                samples[samples.count - 1].at = last.at
            } else {
                samples.append(sample)
            }
            if samples.count > Self.limit { samples.removeFirst() }
            return samples
        }
    }
}
