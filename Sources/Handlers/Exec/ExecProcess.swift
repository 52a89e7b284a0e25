import Dispatcher
import NIOCore
import NIOPosix
import Processes

/// A process for a single message (`mode: once`): the message on its standard input, the answer in its exit status.
enum ExecProcess {
    /// Starts the program, writes the message and waits for the end.
    ///
    /// Cancelling the task, or the deadline, kills the process group; the result is then `.signal(SIGKILL)`.
    ///
    /// - Throws: ``SpawnError``, or NIO's error if the pipes can't be used.
    static func run(
        _ program: ChildProgram,
        input: [UInt8],
        deadline: ContinuousClock.Instant,
        output: ExecOutputLog
    ) async throws -> ChildProcess.Exit {
        let child = try await ExecChild.start(program, readsOutput: false, output)
        let eventLoop = child.exit.eventLoop
        return try await withTaskCancellationHandler {
            let wait = TimeAmount(max(.zero, ContinuousClock.now.duration(to: deadline)))
            let timeout = eventLoop.scheduleTask(in: wait) { child.process.kill() }
            defer { timeout.cancel() }
            do {
                let channel = try await NIOPipeBootstrap(group: eventLoop)
                    .takingOwnershipOfDescriptor(output: child.input) { $0.eventLoop.makeSucceededFuture($0) }
                // A process need not read its input: the write then fails, and the exit status still counts.
                channel.writeAndFlush(ByteBuffer(bytes: input)).whenComplete { _ in channel.close(promise: nil) }
                // Nor need a grandchild that holds the other end.
                child.exit.whenComplete { _ in channel.close(promise: nil) }
            } catch {
                child.process.kill()
                _ = try? await child.exit.get()
                throw error
            }
            return try await child.exit.get()
        } onCancel: {
            child.process.kill()
        }
    }

    static func verdict(of exit: ChildProcess.Exit) -> HandlerVerdict {
        func failure(_ text: String) -> HandlerFailure { HandlerFailure(group: text, detail: text) }
        return switch exit {
        // The numbers are sysexits.h's: EX_TEMPFAIL and EX_DATAERR.
        case .code(0): .done
        case .code(75): .retry(after: nil, failure("exec exit 75 asked for a retry"))
        case .code(65): .reject(failure("exec exit 65 rejected the message"))
        case .code(let code): .retry(after: nil, failure("exec exit \(code)"))
        case .signal(let signal): .retry(after: nil, failure("exec signal \(signal)"))
        }
    }
}
