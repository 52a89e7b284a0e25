import CGlibc
import Glibc
import Vocabulary

extension ChildProcess {
    /// Our ends of the process's standard streams; the holder closes them.
    package struct Pipes {
        package var input: CInt
        /// The read end of its standard output; nil if that goes to `/dev/null`.
        package var output: CInt?
        package var error: CInt
    }

    /// Starts a program with pipes to its standard streams, and a thread that waits for it.
    ///
    /// The thread reaps it whatever becomes of the pipes, and then calls `onExit` once. The kernel kills the process
    /// when that thread ends, so it never outlives ours. If it can't be started, nothing is left open.
    package static func start(
        _ program: ChildProgram,
        readsOutput: Bool,
        onExit: @escaping @Sendable (Exit) -> Void
    ) async throws(SpawnError) -> (ChildProcess, Pipes) {
        var made: [Pipe] = []
        do throws(SpawnError) {
            for _ in 1...3 { made.append(try Pipe()) }
        } catch {
            for pipe in made { pipe.close() }
            throw error
        }
        let pipes = made
        let (input, output, errors) = (pipes[0], pipes[1], pipes[2])
        let childOutput = readsOutput ? output.writing : nil
        let started = Promise<Result<ChildProcess, SpawnError>>()
        let isRunning = DetachedThread.run {
            do throws(SpawnError) {
                // The child lives as long as this thread, which reaps it.
                let child = try ChildProcess(
                    program,
                    input: input.reading,
                    output: childOutput,
                    error: errors.writing,
                    lifetime: .boundToThread
                )
                started.fulfil(.success(child))
                onExit(child.wait())
            } catch {
                started.fulfil(.failure(error))
            }
        }
        if !isRunning { started.fulfil(.failure(SpawnError(number: EAGAIN))) }
        let child: ChildProcess
        do {
            child = try await started.value.get()
        } catch {
            for pipe in pipes { pipe.close() }
            throw error
        }
        for descriptor in [input.reading, output.writing, errors.writing] { _ = Glibc.close(descriptor) }
        if !readsOutput { _ = Glibc.close(output.reading) }
        return (child, Pipes(input: input.writing, output: readsOutput ? output.reading : nil, error: errors.reading))
    }
}

/// A pipe that other subprocesses don't inherit.
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
