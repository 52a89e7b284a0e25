import CGlibc
import Glibc

extension ChildProcess {
    /// Our ends of the process's standard streams; whoever holds the value closes them.
    package struct Pipes {
        /// Where its standard input is written.
        package var input: CInt
        /// Where its standard output is read; nil where it goes to `/dev/null`.
        package var output: CInt?
        /// Where its standard error is read.
        package var error: CInt
    }

    /// Starts a program with pipes to its standard streams, on a thread of its own that waits for it.
    ///
    /// So no zombie is left whatever becomes of the pipes. The system kills the process when that thread ends, so it doesn't
    /// outlive ours, however ours ends; the thread itself ends after it.
    ///
    /// - Parameters:
    ///   - program: What to start.
    ///   - readsOutput: Whether its standard output is to be read.
    ///   - onExit: Called once, on another thread, when the process has ended and been reaped.
    /// - Returns: The process and our ends of its streams.
    /// - Throws: ``SpawnError`` where it could not be started; nothing is left open then.
    package static func start(
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
                do throws(SpawnError) {
                    // The thread keeps the child alive until it is reaped.
                    let child = try ChildProcess(
                        program,
                        input: input.reading,
                        output: childOutput,
                        error: errors.writing,
                        lifetime: .boundToThread
                    )
                    continuation.resume(returning: .success(child))
                    onExit(child.wait())
                } catch {
                    continuation.resume(returning: .failure(error))
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
