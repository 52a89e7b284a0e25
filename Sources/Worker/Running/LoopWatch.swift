package import NIOCore
import NIOPosix
package import Pipeline
package import Telemetry

/// Whether the worker's loops move: the event loops of the connections, the writers, and the dispatcher.
///
/// A loop that works for too long without a step hangs. Waiting is allowed, for work and for the database alike: an outage, a lock
/// or a standby that is away must not get a worker killed that goes on by itself afterwards.
package struct LoopWatch: Sendable {
    /// An event loop, and whether it has answered the last knock.
    private struct Knocked: Sendable {
        var loop: any EventLoop
        var progress: LoopProgress
    }

    private let eventLoops: [Knocked]
    private let writers: [LoopProgress]
    private let others: [LoopProgress]
    private let queue: IngestQueue?

    /// A watch over these loops.
    ///
    /// - Parameters:
    ///   - eventLoops: Are asked for an answer with each look.
    ///   - queue: What the writers take from.
    ///   - writers: Report themselves what they do.
    ///   - others: Likewise.
    package init(
        eventLoops: [any EventLoop],
        queue: IngestQueue? = nil,
        writers: [LoopProgress] = [],
        others: [LoopProgress] = []
    ) {
        self.eventLoops = eventLoops.enumerated().map { Knocked(loop: $1, progress: LoopProgress("event-loop-\($0)")) }
        self.queue = queue
        self.writers = writers
        self.others = others
    }

    /// A watch over the event loops that servers use which were given none.
    package static var ofSharedLoops: LoopWatch {
        LoopWatch(eventLoops: MultiThreadedEventLoopGroup.singleton.makeIterator().map { $0 })
    }

    /// The names of the loops that have made no step for longer than `limit`.
    ///
    /// Also asks the event loops for the next answer; call it more often than `limit`.
    package func stuck(limit: Duration, now: ContinuousClock.Instant = .now) -> [String] {
        for knocked in eventLoops where knocked.progress.phase == .idle {
            let progress = knocked.progress
            progress.enter(.working, now: now)
            knocked.loop.execute { progress.enter(.idle) }
        }
        let silent = (eventLoops.map(\.progress) + writers + others).filter { $0.silence(now: now) > limit }
        return silent.map(\.name) + (isLeftAlone(limit, now) ? ["queue"] : [])
    }

    /// Whether messages wait although no writer has had anything to do for as long: none was woken.
    private func isLeftAlone(_ limit: Duration, _ now: ContinuousClock.Instant) -> Bool {
        guard !writers.isEmpty, let oldest = queue?.oldest, now - oldest > limit else { return false }
        return writers.allSatisfy { $0.phase == .idle && $0.age(now: now) > limit }
    }
}
