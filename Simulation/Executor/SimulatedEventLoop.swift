import Dispatch
import NIOCore

/// An event loop on virtual time: its tasks run in order, one a step, between those of other loops.
// Sendable: on the simulation's one thread.
final class SimulatedEventLoop: EventLoop, @unchecked Sendable {
    let process: Int
    private let scheduler: Scheduler
    private var tasks = CircularBuffer<() -> Void>()

    init(_ scheduler: Scheduler, process: Int) {
        (self.scheduler, self.process) = (scheduler, process)
    }

    var inEventLoop: Bool { scheduler.loop === self }

    var now: NIODeadline { .uptimeNanoseconds(scheduler.now) }

    /// Runs the first task; returns whether there are more.
    func runNext() -> Bool {
        tasks.popFirst()?()
        return !tasks.isEmpty
    }

    private func append(_ task: @escaping () -> Void) {
        let wakes = tasks.isEmpty && !inEventLoop
        tasks.append(task)
        // During a task of its own, the scheduler looks again after it.
        if wakes { scheduler.makeReady(self) }
    }

    func execute(_ task: @escaping @Sendable () -> Void) { append(task) }

    @discardableResult
    func scheduleTask<T>(deadline: NIODeadline, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        let promise = makePromise(of: T.self)
        let wish = Wish()
        let timer = scheduler.at(deadline.uptimeNanoseconds, as: process) { [self] in
            append {
                guard wish.isWanted else { return }
                do { promise.assumeIsolatedUnsafeUnchecked().succeed(try task()) } catch { promise.fail(error) }
            }
        }
        wish.timer = timer
        return Scheduled(promise: promise, cancellationTask: { wish.withdraw() })
    }

    @discardableResult
    func scheduleTask<T>(in delay: TimeAmount, _ task: @escaping @Sendable () throws -> T) -> Scheduled<T> {
        scheduleTask(deadline: now + delay, task)
    }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {}

    /// Whether a scheduled task is still wanted, also between its time and its turn.
    private final class Wish: @unchecked Sendable {
        weak var timer: Timer?
        private(set) var isWanted = true

        func withdraw() {
            isWanted = false
            timer?.cancel()
        }
    }
}

/// Event loops of one worker, given out in turn.
final class SimulatedEventLoopGroup: EventLoopGroup, @unchecked Sendable {
    private let loops: [SimulatedEventLoop]
    private var given = 0

    init(_ scheduler: Scheduler, process: Int, count: Int) {
        loops = (0..<count).map { _ in SimulatedEventLoop(scheduler, process: process) }
    }

    func next() -> any EventLoop {
        given += 1
        return loops[given % loops.count]
    }

    func makeIterator() -> EventLoopIterator { EventLoopIterator(loops) }

    func shutdownGracefully(queue: DispatchQueue, _ callback: @escaping @Sendable ((any Error)?) -> Void) {}
}
