import UpstreamKit
import Vocabulary

/// What a worker asks for of a handler's limit over all workers.
package struct ShareRequest: Sendable, Equatable {
    package var handler: String
    /// The number of parts that all workers have together.
    package var whole: Int
    /// The most parts that this worker could use.
    package var most: Int
    /// The parts that its running attempts need.
    package var busy: Int
    /// How long the answer holds.
    package var lease: Duration

    package init(handler: String, whole: Int, most: Int, busy: Int, lease: Duration) {
        (self.handler, self.whole, self.most, self.busy, self.lease) = (handler, whole, most, busy, lease)
    }
}

/// This worker's share of a handler's limit over all workers: nothing before the database has given it one, and after
/// its time.
///
/// Shares hold as long as leases, so that a worker that is cut off has stopped before another has its share.
struct LimitShare: Sendable {
    let limit: HandlerLimit
    private var parts = 0
    private var end: FixedInstant?
    /// The calls that ran at a request without an answer: others may have the rest of this share by now.
    private var counted: Int?

    init(_ limit: HandlerLimit) { self.limit = limit }

    mutating func adopt(_ parts: Int, until end: ContinuousClock.Instant) {
        (self.parts, self.end, counted) = (parts, FixedInstant(end), nil)
    }

    /// Takes an answer that leaves the share as it is.
    mutating func keep() { counted = nil }

    /// How many calls may run at the same time, of the `most` that this worker makes.
    func calls(most: Int, now: ContinuousClock.Instant) -> Int {
        guard parts > 0, let end, now < end.wrappedValue else { return 0 }
        let own = limit.concurrency.map { min(most, $0 * parts / limit.parts) } ?? most
        return min(own, counted ?? own)
    }

    /// The attempts that may begin in a second; nil for any number.
    var perSecond: Double? { limit.rate.map { $0.perSecond * Double(parts) / Double(limit.parts) } }

    /// The request for the next share, of a worker that runs so many calls, of `most` at the same time: until the answer
    /// no more may run.
    mutating func request(running: Int, most: Int, _ settings: LaneSettings) -> ShareRequest {
        if limit.concurrency != nil { counted = running }
        func share(of calls: Int) -> Int {
            guard let concurrency = limit.concurrency else { return calls > 0 ? limit.parts : 0 }
            return min(limit.parts, (calls * limit.parts + concurrency - 1) / concurrency)
        }
        return ShareRequest(
            handler: settings.name,
            whole: limit.parts,
            most: share(of: most),
            busy: limit.concurrency == nil ? 0 : share(of: running),
            lease: settings.dispatch.lease
        )
    }
}

extension HandlerRate {
    var perSecond: Double { Double(count) / period.inSeconds }
}

// Limits over all workers.
extension DispatchStateMachine {
    /// Begins to ask for this worker's share; nil without a limit.
    package mutating func requestShare() -> ShareRequest? {
        let settings = settings
        let calls = (running.count + settings.batch - 1) / settings.batch
        return share?.request(running: calls, most: settings.calls, settings)
    }

    /// Keeps this worker's share as it is.
    package mutating func keepShare() { share?.keep() }

    /// Takes this worker's share, in parts; returns waiting deliveries to release where others are to have them.
    package mutating func adopt(
        share parts: Int,
        until end: ContinuousClock.Instant,
        now: ContinuousClock.Instant
    ) -> [Settlement] {
        share?.adopt(parts, until: end)
        if let share, let perSecond = share.perSecond {
            let own = settings.registration.rate?.perSecond ?? .infinity
            budget?.change(to: min(own, perSecond), now: now)
        }
        return parts == 0 ? releaseWaiting() : []
    }
}
