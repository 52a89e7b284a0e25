import Foundation
package import Logging
import Synchronization
import Telemetry
import Vocabulary

/// Supervises a long-running process: reports its state to the service manager, feeds the watchdog while every loop
/// moves, and logs once a minute that the database is away.
///
/// *starting* (the manager is asked for patience) → `started()` *ready* → `stopping(within:)` *stopping*.
package final class Supervisor: Sendable {
    /// Why the database can't be used, or nothing can be committed (nil if nothing is wrong), and the messages received and not
    /// committed.
    package typealias Hindrance = (reason: String?, waiting: Int)

    /// How long the manager is asked for patience each time.
    private static let patience = Duration.seconds(60)
    /// How long a loop may be silent without a watchdog.
    private static let longestSilence = Duration.seconds(20)

    private enum Phase { case starting, ready, stopping }

    private struct State {
        var phase = Phase.starting
        /// What the manager must hear of the phase and has not taken yet: a queue of datagrams may be full.
        var untold: [ServiceManager.Message] = []
        var stuck: Set<String> = []
        var isUnreachable = false
        /// How often the state is reported to the manager.
        var status = Reminder(every: .seconds(5))
        var patience = Reminder(every: .seconds(10))
        var sign: Reminder
        var outage: OutageLog
    }

    /// Nil to write only the log.
    private let manager: ServiceManager?
    private let watch: LoopWatch
    /// The state in one line, without secrets.
    private let status: @Sendable () -> String
    private let hindrance: @Sendable () -> Hindrance
    private let logger: Logger
    private let limit: Duration
    private let state: Mutex<State>

    package init(
        manager: ServiceManager?,
        watch: LoopWatch,
        status: @escaping @Sendable () -> String,
        hindrance: @escaping @Sendable () -> Hindrance = { (nil, 0) },
        logger: Logger
    ) {
        self.manager = manager
        self.watch = watch
        self.status = status
        self.hindrance = hindrance
        self.logger = logger
        let watchdog = manager?.watchdog ?? .seconds(3600)
        limit = min(Self.longestSilence, watchdog / 2)
        state = Mutex(State(sign: Reminder(every: watchdog / 4), outage: OutageLog(logger)))
    }

    package func started() {
        let isFirst = state.withLock { state in
            guard state.phase == .starting else { return false }
            state.phase = .ready
            announce(&state, .ready, .status(status()))
            return true
        }
        if isFirst { logger.event(.info, .workerReady, "started: the database is there, and work begins") }
    }

    /// Records that shutdown begins, with the time allowed for it.
    package func stopping(within grace: Duration) {
        state.withLock { state in
            guard state.phase != .stopping else { return }
            state.phase = .stopping
            // So that the manager waits as long as configured here, whatever its unit says.
            announce(&state, .stopping, .extendTimeout(grace + .seconds(5)), .status("shutting down"))
        }
    }

    /// Reloads the configuration; the manager waits for the end of `body`.
    package func reload(_ body: () -> Void) {
        state.withLock { state in
            // A process that is not ready yet must not say that it is.
            guard state.phase == .ready, state.untold.isEmpty else { return }
            say(&state, [.reloading(ServiceManager.monotonicTime), .status("reading the configuration again")])
        }
        body()
        state.withLock { state in
            if state.phase == .ready { announce(&state, .ready, .status(status())) }
        }
    }

    /// Supervises until cancelled, on its own thread: Swift handlers may block all of the tasks' threads.
    package func run() async {
        let step = max(.milliseconds(20), min(.seconds(1), (manager?.watchdog ?? .seconds(60)) / 8))
        let end = DispatchSemaphore(value: 0)
        let ended = Promise<Void>()
        let thread = Thread {
            self.look(every: step, until: end)
            ended.fulfil()
        }
        thread.name = "supervisor"
        thread.start()
        await withTaskCancellationHandler {
            await ended.wait()
        } onCancel: {
            end.signal()
        }
    }

    private func look(every step: Duration, until end: DispatchSemaphore) {
        var last = ContinuousClock.now
        var wait = DispatchTime.now()
        while end.wait(timeout: wait) == .timedOut {
            let now = ContinuousClock.now
            look(now: now, isAfterPause: now - last > Self.pause(step))
            last = now
            wait = .now() + step / .seconds(1)
        }
    }

    /// A gap between checks that shows that the whole process was stopped: by SIGSTOP, or with its machine.
    static func pause(_ step: Duration) -> Duration { max(step * 3, .seconds(5)) }

    /// Checks once; if the whole process was stopped until now, only loops that hung before count as hung.
    func look(now: ContinuousClock.Instant, isAfterPause: Bool = false) {
        let silent = Set(watch.stuck(limit: limit, now: now))
        let hindrance = hindrance()
        let (before, stuck) = state.withLock { state in
            let before = state.stuck
            state.stuck = isAfterPause ? silent.intersection(before) : silent
            state.outage.check(hindrance.reason, waiting: hindrance.waiting, now: now)
            tell(&state, isMoving: isAfterPause || state.stuck.isEmpty, now)
            return (before, state.stuck)
        }
        for name in stuck.subtracting(before).sorted() {
            logger.event(
                .critical,
                .loopStuck,
                "a loop of the worker makes no progress; the service manager's watchdog is fed no longer",
                [.loop: .string(name), .durationSeconds: .seconds(limit)]
            )
        }
        for name in before.subtracting(stuck).sorted() {
            logger.event(.notice, .loopMoving, "a loop of the worker moves again", [.loop: .string(name)])
        }
    }

    /// Everything that is due, as one datagram: a manager that is behind holds only a few (`net.unix.max_dgram_qlen`).
    private func tell(_ state: inout State, isMoving: Bool, _ now: ContinuousClock.Instant) {
        guard let manager else { return }
        var due = state.untold
        if state.phase == .starting, isMoving, state.patience.isDue(now) { due.append(.extendTimeout(Self.patience)) }
        if state.phase != .stopping, state.status.isDue(now) { due.append(.status(status())) }
        if manager.watchdog != nil, isMoving, state.sign.isDue(now) { due.append(.alive) }
        if !due.isEmpty, say(&state, due) { state.untold = [] }
    }

    /// Tells the manager of a phase, again at each step until it takes it.
    private func announce(_ state: inout State, _ messages: ServiceManager.Message...) {
        state.untold = messages
        if say(&state, messages) { state.untold = [] }
    }

    @discardableResult
    private func say(_ state: inout State, _ messages: [ServiceManager.Message]) -> Bool {
        guard let manager else { return true }
        let isTaken = manager.tell(messages)
        if !isTaken, !state.isUnreachable {
            logger.event(
                .warning,
                .managerUnreachable,
                "the service manager's socket (NOTIFY_SOCKET) takes nothing; retrying"
            )
        }
        state.isUnreachable = !isTaken
        return isTaken
    }
}
