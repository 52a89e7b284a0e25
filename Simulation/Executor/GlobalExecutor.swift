import CSwiftRuntime

/// Takes the place of Swift's global executor: every job of every task goes to the running ``Scheduler``.
///
/// The runtime has variables for that purpose; a custom global executor has no public form yet (Swift 6.3). Threads of
/// other libraries may not touch tasks meanwhile.
enum GlobalExecutor {
    private typealias Original = @convention(thin) (UnownedJob) -> Void
    private typealias Hook = @convention(thin) (UnownedJob, Original) -> Void
    private typealias OriginalDelay = @convention(thin) (UInt64, UnownedJob) -> Void
    private typealias DelayHook = @convention(thin) (UInt64, UnownedJob, OriginalDelay) -> Void
    private typealias OriginalDeadline = @convention(thin) (Int64, Int64, Int64, Int64, Int32, UnownedJob) -> Void
    private typealias DeadlineHook =
        @convention(thin) (Int64, Int64, Int64, Int64, Int32, UnownedJob, OriginalDeadline) -> Void

    /// Installs the hooks, for the rest of the process's life.
    static func install() {
        simulation_enqueue_hook().assumingMemoryBound(to: Optional<Hook>.self).pointee = { job, _ in
            Scheduler.running.enqueue(job)
        }
        // Both are how a task sleeps by a real clock.
        let delay = simulation_enqueue_with_delay_hook().assumingMemoryBound(to: Optional<DelayHook>.self)
        delay.pointee = { _, _, _ in GlobalExecutor.refuseSleep() }
        let deadline = simulation_enqueue_with_deadline_hook().assumingMemoryBound(to: Optional<DeadlineHook>.self)
        deadline.pointee = { _, _, _, _, _, _, _ in GlobalExecutor.refuseSleep() }
    }

    private static func refuseSleep() -> Never {
        fatalError("a task sleeps by the system's clock: inject a TimeSource")
    }

    /// Runs a job on its process's executor, or, as the global executor would, on none.
    static func run(_ job: UnownedJob, on executor: ProcessExecutor?) {
        if let executor { return job.runSynchronously(on: executor.asUnownedTaskExecutor()) }
        job.runSynchronously(on: unsafeBitCast((0, 0), to: UnownedSerialExecutor.self))
    }
}

/// Runs the tasks of one process, and their child tasks: whoever wakes one of them, it stays that process's.
///
/// A task that is no child has no part in it, and belongs to whoever makes it ready.
final class ProcessExecutor: TaskExecutor {
    let process: Int
    private let scheduler: Scheduler

    init(_ scheduler: Scheduler, process: Int) { (self.scheduler, self.process) = (scheduler, process) }

    func enqueue(_ job: UnownedJob) { scheduler.enqueue(job, on: self) }
}
