import Vocabulary

/// The one thread of a simulation: runs tasks' jobs, event loops' tasks and timers on virtual time, the next one drawn
/// by seed.
///
/// Everything belongs to a process: 0 is the world (network, servers, database), the others are workers. What a process
/// begins belongs to it as well, so that a worker can be frozen or killed between any two steps.
// Sendable: the thread check in `enqueue` holds everything on one thread.
final class Scheduler: @unchecked Sendable {
    static let world = 0

    private enum Ready {
        /// A job, on its process's executor; on none if its task has left that.
        case job(UnownedJob, process: Int, ProcessExecutor?)
        case loop(SimulatedEventLoop)
        case timer(Timer)
    }

    private enum ProcessState {
        case runs
        case frozen
        case dead
    }

    private struct Process {
        var state = ProcessState.runs
        /// What became ready while it was frozen.
        var parked: [Ready] = []
    }

    private nonisolated(unsafe) static var current: Scheduler?

    /// The scheduler of the simulation that runs.
    static var running: Scheduler {
        guard let current else { fatalError("a task runs outside a simulation") }
        return current
    }

    /// Nanoseconds since the simulation's start.
    private(set) var now: UInt64 = 0
    private(set) var steps: UInt64 = 0
    /// The process that the current step belongs to.
    private(set) var process = Scheduler.world
    private(set) var loop: SimulatedEventLoop?
    private var random: SplitMix
    private var ready: [Ready] = []
    private var timers = TimerHeap()
    private var processes = [Process()]
    /// A hash over everything that has happened.
    private(set) var digest: UInt64 = 0xCBF2_9CE4_8422_2325

    init(seed: UInt64) {
        random = SplitMix(seed: seed, for: "schedule")
        Scheduler.current = self
    }

    /// Adds a process; returns its number.
    func addProcess() -> Int {
        processes.append(Process())
        return processes.count - 1
    }

    func isAlive(_ process: Int) -> Bool { processes[process].state != .dead }

    /// Mixes a happening into the digest.
    @inline(__always)
    func note(_ value: UInt64) { digest = (digest ^ value) &* 0x100_0000_01B3 ^ digest >> 47 }

    // MARK: What becomes ready

    /// Takes a job of a task without an executor, for the process that made it ready.
    func enqueue(_ job: UnownedJob) { makeReady(.job(job, process: process, nil), of: process) }

    /// Takes a job for its process, whoever made it ready.
    func enqueue(_ job: UnownedJob, on executor: ProcessExecutor) {
        makeReady(.job(job, process: executor.process, executor), of: executor.process)
    }

    func makeReady(_ loop: SimulatedEventLoop) { makeReady(.loop(loop), of: loop.process) }

    private func makeReady(_ entry: Ready, of process: Int) {
        switch processes[process].state {
        case .runs: ready.append(entry)
        case .frozen: processes[process].parked.append(entry)
        case .dead: break
        }
    }

    /// Calls a function after a time, in the current process or another one.
    @discardableResult
    func after(_ delay: Duration, as process: Int? = nil, _ action: @escaping () -> Void) -> Timer {
        at(now &+ delay.nanoseconds, as: process, action)
    }

    /// Calls a function at a time, or now if that has passed.
    @discardableResult
    func at(_ time: UInt64, as process: Int? = nil, _ action: @escaping () -> Void) -> Timer {
        let timer = Timer(process: process ?? self.process, action)
        timers.push(timer, at: max(time, now))
        return timer
    }

    /// Calls a function as a process, at once.
    func run<T>(as other: Int, _ body: () -> T) -> T {
        let before = (process, loop)
        (process, loop) = (other, nil)
        defer { (process, loop) = before }
        return body()
    }

    // MARK: The fate of processes

    /// Stops a process between two steps, as SIGSTOP does, and as a machine's pause.
    func freeze(_ process: Int) {
        guard processes[process].state == .runs else { return }
        processes[process].state = .frozen
    }

    func thaw(_ process: Int) {
        guard processes[process].state == .frozen else { return }
        processes[process].state = .runs
        ready += processes[process].parked
        processes[process].parked = []
    }

    /// Ends a process between two steps: nothing of it runs any more.
    func kill(_ process: Int) { processes[process] = Process(state: .dead) }

    // MARK: Steps

    /// Runs the next step; false if nothing is left to do.
    func step() -> Bool {
        while let due = timers.first, due <= now || ready.isEmpty {
            now = max(now, due)
            guard let timer = timers.pop(), timer.action != nil else { continue }
            makeReady(.timer(timer), of: timer.process)
        }
        guard !ready.isEmpty else { return false }
        let index = ready.count == 1 ? 0 : random.below(ready.count)
        let next = ready[index]
        let last = ready.removeLast()
        if index < ready.count { ready[index] = last }
        steps += 1
        perform(next)
        // A step takes time, so that two workers' clocks pass between each other's steps.
        now &+= 200 &+ random.next() & 1023
        return true
    }

    private func perform(_ next: Ready) {
        let owner: Int =
            switch next {
            case .job(_, let process, _): process
            case .loop(let loop): loop.process
            case .timer(let timer): timer.process
            }
        switch processes[owner].state {
        case .runs: break
        case .frozen: return processes[owner].parked.append(next)
        case .dead: return
        }
        process = owner
        note(now &* 8 &+ UInt64(owner))
        switch next {
        case .job(let job, _, let executor): GlobalExecutor.run(job, on: executor)
        case .loop(let loop):
            self.loop = loop
            if loop.runNext() { makeReady(loop) }
            self.loop = nil
        case .timer(let timer): timer.take()?()
        }
        process = Scheduler.world
    }
}
