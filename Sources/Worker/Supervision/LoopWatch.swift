package import Ingest
package import NIOCore
import NIOPosix
package import Telemetry

/// Detects hung loops (event loops, writers, the dispatcher), which work for too long without a step.
///
/// Waiting is allowed, for the database as well: an outage must not kill a worker that would recover by itself.
package struct LoopWatch: Sendable {
    /// Asked for an answer at each check, with whether it has come; the others report their own progress.
    private let eventLoops: [(loop: any EventLoop, progress: LoopProgress)]
    private let writers: [LoopProgress]
    private let others: [LoopProgress]
    private let queue: IngestQueue?

    package init(
        eventLoops: [any EventLoop],
        queue: IngestQueue? = nil,
        writers: [LoopProgress] = [],
        others: [LoopProgress] = []
    ) {
        self.eventLoops = eventLoops.enumerated().map { ($1, LoopProgress("event-loop-\($0)")) }
        self.queue = queue
        self.writers = writers
        self.others = others
    }

    /// Watches the shared event loops, which servers use by default.
    package static var ofSharedLoops: LoopWatch {
        LoopWatch(eventLoops: MultiThreadedEventLoopGroup.singleton.makeIterator().map { $0 })
    }

    /// The names of loops without a step for longer than `limit`; asks the event loops for their next answer.
    package func stuck(limit: Duration, now: ContinuousClock.Instant = .now) -> [String] {
        for (loop, progress) in eventLoops where progress.phase == .idle {
            progress.enter(.working, now: now)
            loop.execute { progress.enter(.idle) }
        }
        let silent = (eventLoops.map { $0.progress } + writers + others).filter { $0.silence(now: now) > limit }
        return silent.map(\.name) + (isLeftAlone(limit, now) ? ["queue"] : [])
    }

    /// Whether messages wait although all writers have been idle for as long: none was woken.
    private func isLeftAlone(_ limit: Duration, _ now: ContinuousClock.Instant) -> Bool {
        guard !writers.isEmpty, let oldest = queue?.oldest, now - oldest > limit else { return false }
        return writers.allSatisfy { $0.phase == .idle && $0.age(now: now) > limit }
    }
}
