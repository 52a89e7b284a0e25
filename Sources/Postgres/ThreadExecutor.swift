import CLibPQ
import Glibc

/// An executor with its own thread, for an actor that makes blocking C calls.
///
/// libpq blocks while it waits for the server, which would stall other tasks on the cooperative pool. As a task
/// executor it also runs a task that does little but call that actor, so that statements need no thread switch. After
/// ``stop()`` the thread ends once the queue is empty.
final class ThreadExecutor: SerialExecutor, TaskExecutor, @unchecked Sendable {
    // One lock guards the queue and the flag; the condition signals changes.
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    private let changed: UnsafeMutablePointer<pthread_cond_t>
    private var queue: [UnownedJob] = []
    private var isStopped = false
    /// Whether the thread sleeps and has not been woken yet.
    private var isWaiting = false

    /// Starts the thread; the first 15 bytes of `name` show in `top -H`.
    init(name: String) {
        lock = .allocate(capacity: 1)
        changed = .allocate(capacity: 1)
        lock.initialize(to: pthread_mutex_t())
        changed.initialize(to: pthread_cond_t())
        pthread_mutex_init(lock, nil)
        pthread_cond_init(changed, nil)
        // The thread keeps the executor alive until it has stopped.
        startThread(name: name) { self.work() }
    }

    deinit {
        pthread_cond_destroy(changed)
        pthread_mutex_destroy(lock)
        changed.deallocate()
        lock.deallocate()
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        pthread_mutex_lock(lock)
        queue.append(job)
        guard isWaiting else {
            pthread_mutex_unlock(lock)
            return
        }
        isWaiting = false
        // The job may be the last one, and free the executor's last reference before we have signalled.
        let this = Unmanaged.passRetained(self)
        pthread_mutex_unlock(lock)
        // Not under the lock: the woken thread would block on it and go back to sleep.
        pthread_cond_signal(changed)
        this.release()
    }

    func asUnownedSerialExecutor() -> UnownedSerialExecutor { UnownedSerialExecutor(ordinary: self) }

    func asUnownedTaskExecutor() -> UnownedTaskExecutor { UnownedTaskExecutor(ordinary: self) }

    /// Ends the thread after the queued jobs; called once, by ``PostgresThread``.
    func stop() {
        pthread_mutex_lock(lock)
        isStopped = true
        pthread_cond_signal(changed)
        pthread_mutex_unlock(lock)
    }

    private func work() {
        var jobs: [UnownedJob] = []
        while true {
            jobs.removeAll(keepingCapacity: true)
            pthread_mutex_lock(lock)
            while queue.isEmpty && !isStopped {
                isWaiting = true
                pthread_cond_wait(changed, lock)
            }
            swap(&jobs, &queue)
            let ends = jobs.isEmpty
            pthread_mutex_unlock(lock)
            if ends { return }
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

private final class ThreadBody {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

func startThread(name: String, _ body: @escaping @Sendable () -> Void) {
    var thread = pthread_t()
    // The new thread takes the box over (takeRetainedValue).
    let named: @Sendable () -> Void = {
        upstream_name_thread(name)
        body()
    }
    let box = Unmanaged.passRetained(ThreadBody(named)).toOpaque()
    let code = pthread_create(
        &thread,
        nil,
        { argument in
            guard let argument else { return nil }
            Unmanaged<ThreadBody>.fromOpaque(argument).takeRetainedValue().run()
            return nil
        },
        box
    )
    // Only a machine out of threads gets here, and without the thread the actor could never run.
    precondition(code == 0, "can't start a thread: errno \(code)")
    pthread_detach(thread)
}
