import CGlibc
import Glibc
import Synchronization

/// A program to start, and what it is given.
package struct ChildProgram: Sendable, Hashable {
    /// The absolute path, then the arguments; no shell reads them.
    package var command: [String]

    /// The whole environment, as `NAME=value`.
    package var environment: [String]

    /// A program with exactly this environment.
    package init(command: [String], environment: [String]) {
        self.command = command
        self.environment = environment
    }
}

/// Why a program could not be started.
struct SpawnError: Error {
    /// The operating system's error number.
    var number: Int32

    /// The operating system's words.
    var reason: String { String(cString: strerror(number)) }
}

/// A running subprocess, leader of its own process group: owns the process id until the process has been reaped.
///
/// A thread of its own starts it and waits for it, so that no zombie is left whatever becomes of the pipes. The system kills
/// the process when that thread ends, so it doesn't outlive ours, however ours ends; the thread itself ends after it.
final class ChildProcess: Sendable {
    /// How the process ended.
    enum Exit: Sendable, Hashable {
        /// It called `exit` with this code.
        case code(Int32)
        /// A signal ended it.
        case signal(Int32)
    }

    /// Our ends of the process's standard streams; whoever holds the value closes them.
    struct Pipes {
        /// Where its standard input is written.
        var input: CInt
        /// Where its standard output is read; nil where it goes to `/dev/null`.
        var output: CInt?
        /// Where its standard error is read.
        var error: CInt
    }

    private let pid: pid_t
    private let isReaped = Mutex(false)

    private init(pid: pid_t) {
        self.pid = pid
    }

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: What to start.
    ///   - readsOutput: Whether its standard output is to be read.
    ///   - onExit: Called once, on another thread, when the process has ended and been reaped.
    /// - Returns: The process and our ends of its streams.
    /// - Throws: ``SpawnError`` where it could not be started; nothing is left open then.
    static func start(
        _ program: ChildProgram,
        readsOutput: Bool,
        onExit: @escaping @Sendable (Exit) -> Void
    ) async throws(SpawnError) -> (ChildProcess, Pipes) {
        let input = try Pipe()
        let output: Pipe
        let errors: Pipe
        do {
            output = try Pipe()
        } catch {
            input.close()
            throw error
        }
        do {
            errors = try Pipe()
        } catch {
            input.close()
            output.close()
            throw error
        }
        let childOutput = readsOutput ? output.writing : nil
        let started: Result<ChildProcess, SpawnError> = await withCheckedContinuation { continuation in
            let isRunning = DetachedThread.run {
                switch spawn(program, input.reading, childOutput, errors.writing) {
                case .failure(let error): continuation.resume(returning: .failure(error))
                case .success(let pid):
                    // The thread keeps the child alive until it is reaped.
                    let child = ChildProcess(pid: pid)
                    continuation.resume(returning: .success(child))
                    onExit(child.wait())
                }
            }
            if !isRunning { continuation.resume(returning: .failure(SpawnError(number: EAGAIN))) }
        }
        let child: ChildProcess
        do {
            child = try started.get()
        } catch {
            for pipe in [input, output, errors] { pipe.close() }
            throw error
        }
        for descriptor in [input.reading, output.writing, errors.writing] { _ = Glibc.close(descriptor) }
        if !readsOutput { _ = Glibc.close(output.reading) }
        return (
            child, Pipes(input: input.writing, output: readsOutput ? output.reading : nil, error: errors.reading)
        )
    }

    /// Kills the whole process group; nothing happens once the process has been reaped.
    func kill() {
        // Under the lock, so that the id can't have gone to another process meanwhile.
        isReaped.withLock { isReaped in
            if !isReaped { _ = Glibc.kill(-pid, SIGKILL) }
        }
    }

    /// Waits for the end, kills what is left of the group, and reaps.
    private func wait() -> Exit {
        var information = siginfo_t()
        // Leaves the zombie in place: as long as it stands, its group's id can't be anybody else's.
        while waitid(P_PID, id_t(pid), &information, WEXITED | WNOWAIT) == -1, errno == EINTR {}
        return isReaped.withLock { isReaped in
            _ = Glibc.kill(-pid, SIGKILL)
            var status: Int32 = 0
            while waitpid(pid, &status, 0) == -1, errno == EINTR {}
            isReaped = true
            // WIFEXITED, WEXITSTATUS and WTERMSIG are macros that Swift can't import.
            return status & 0x7F == 0 ? .code(status >> 8 & 0xFF) : .signal(status & 0x7F)
        }
    }

    private static func spawn(
        _ program: ChildProgram,
        _ input: CInt,
        _ output: CInt?,
        _ error: CInt
    ) -> Result<pid_t, SpawnError> {
        // Both arrays are copies that we own and free; the kernel has copied them when the program runs.
        let arguments = program.command.map { strdup($0) } + [nil]
        let environment = program.environment.map { strdup($0) } + [nil]
        defer { for text in arguments + environment { free(text) } }
        let id = upstream_start(program.command.first ?? "", arguments, environment, input, output ?? -1, error)
        return id < 0 ? .failure(SpawnError(number: -id)) : .success(id)
    }
}

/// Both ends of a pipe, not inherited by other subprocesses.
private struct Pipe {
    var reading: CInt
    var writing: CInt

    init() throws(SpawnError) {
        var ends: [CInt] = [-1, -1]
        guard pipe2(&ends, O_CLOEXEC) == 0 else { throw SpawnError(number: errno) }
        (reading, writing) = (ends[0], ends[1])
    }

    func close() {
        _ = Glibc.close(reading)
        _ = Glibc.close(writing)
    }
}

/// A thread for a call that blocks for as long as a subprocess lives.
private enum DetachedThread {
    private final class Box: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }

    /// Whether there was a thread to be had.
    static func run(_ body: @escaping @Sendable () -> Void) -> Bool {
        // Retained for the thread, which releases it; on failure we do.
        let box = Unmanaged.passRetained(Box(body))
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
        pthread_attr_setstacksize(&attributes, 256 * 1024)
        var thread = pthread_t()
        let number = pthread_create(
            &thread,
            &attributes,
            { context in
                guard let context else { return nil }
                Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body()
                return nil
            },
            box.toOpaque()
        )
        if number != 0 { box.release() }
        return number == 0
    }
}
