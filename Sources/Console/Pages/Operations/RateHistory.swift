import MessageStore
import Synchronization

/// What the workers told of their rates lately, for the overview's lines.
///
/// Filled by those who look: a page that is open asks every few seconds; nothing is read for nobody.
final class RateHistory: Sendable {
    /// The sums over the living workers at one moment.
    struct Sample: Sendable {
        var at: ContinuousClock.Instant
        var received = 0.0
        var stored = 0.0
        var handled = 0.0
        /// The slowest worker's, in seconds.
        var latency = 0.0
        var inFlight = 0.0
    }

    /// How many are kept: ten minutes of one each five seconds.
    private static let limit = 120

    private let samples = Mutex<[Sample]>([])

    /// Adds what was read now, and gives what is kept, the oldest first.
    func add(_ workers: [WorkerRow], at now: ContinuousClock.Instant = .now) -> [Sample] {
        var sample = Sample(at: now)
        for worker in workers where worker.isAlive {
            sample.received += worker.rates.received
            sample.stored += worker.rates.stored
            sample.handled += worker.rates.handled
            sample.latency = max(sample.latency, worker.rates.ackP99 ?? 0)
            sample.inFlight += Double(worker.inFlight)
        }
        return samples.withLock { samples in
            // After a pause a line would join what is far apart.
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
