import CLibPQ
import Dispatch
import Glibc
import Synchronization
import Vocabulary

/// An executor with its own thread, for an actor that makes blocking C calls.
///
/// libpq blocks while it waits for the server, which would stall other tasks on the cooperative pool. As a task
/// executor it also runs a task that does little but call that actor, so that statements need no thread switch. After
/// ``stop()`` the thread ends once the queue is empty.
final class ThreadExecutor: SerialExecutor, TaskExecutor {
    private struct State {
        var queue: [UnownedJob] = []
        var isStopped = false
        /// Whether the thread sleeps and has not been woken yet.
        var isWaiting = false

        /// Whether the thread has to be woken now.
        mutating func wakes() -> Bool {
            defer { isWaiting = false }
            return isWaiting
        }
    }

    private let state = Mutex(State())
    private let changed = DispatchSemaphore(value: 0)

    /// Starts the thread; the first 15 bytes of `name` show in `top -H`.
    init(name: String) {
        // The thread keeps the executor alive until it has stopped. Without it the actor could never run.
        let isStarted = startThread(name: name) { self.work() }
        precondition(isStarted, "can't start a thread: errno \(errno)")
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // The job may be the last one, and free the executor's last reference before we have signalled.
        let changed = changed
        let wakes = state.withLock { state in
            state.queue.append(job)
            return state.wakes()
        }
        // Not under the lock: the woken thread would block on it and go back to sleep.
        if wakes { changed.signal() }
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    func asUnownedTaskExecutor() -> UnownedTaskExecutor { UnownedTaskExecutor(ordinary: self) }

    /// Ends the thread after the queued jobs; called once, by ``PostgresThread``.
    func stop() {
        let wakes = state.withLock { state in
            state.isStopped = true
            return state.wakes()
        }
        if wakes { changed.signal() }
    }

    private func work() {
        var jobs: [UnownedJob] = []
        while true {
            jobs.removeAll(keepingCapacity: true)
            let ends = state.withLock { state in
                swap(&jobs, &state.queue)
                state.isWaiting = jobs.isEmpty && !state.isStopped
                return jobs.isEmpty && state.isStopped
            }
            if ends { return }
            if jobs.isEmpty { changed.wait() }
            for job in jobs {
                job.runSynchronously(
                    isolatedTo: asUnownedSerialExecutor(),
                    taskExecutor: asUnownedTaskExecutor()
                )
            }
        }
    }
}

/// The thread of a client and its successive connections; ends with the last of them.
final class PostgresThread: Sendable {
    let executor = ThreadExecutor(name: "postgres")

    deinit { executor.stop() }
}

/// Starts a thread for libpq's calls, whose look-ups of names need the usual stack; false, with the reason in `errno`, where
/// the process may have no more.
func startThread(name: String, _ body: @escaping @Sendable () -> Void) -> Bool {
    DetachedThread.run(stack: nil) {
        upstream_name_thread(name)
        body()
    }
}
