import Glibc
package import Logging
import NIOCore
package import NIOPosix
import Pipeline
import Processes
import Synchronization
package import UpstreamKit

/// Handler kind `exec`: gives messages to a program of the user's, in any language.
///
/// In `stream` mode processes are long-lived and take one message at a time, a line each way; there are at most as many as the
/// handler's concurrency. In `once` mode there is a process per message. No shell is used, and the environment holds only the
/// allowed names.
package final class ExecHandler: UpstreamHandler {
    /// How the program is run.
    package enum Mode: Sendable, Hashable {
        /// One process for many messages, a line each.
        case stream
        /// One process per message.
        case once
    }

    /// The environment variables that are passed on, where they are set.
    package static let passedEnvironment = ["PATH", "LANG", "LC_ALL", "TZ"]

    /// The most bytes of an answer's line.
    package static let answerLimit = 64 * 1024

    private let program: ChildProgram
    private let mode: Mode
    private let output: ExecOutputLog
    private let group: MultiThreadedEventLoopGroup
    private let pool = Mutex(Pool())

    /// The processes that wait for a message, and how starting them goes.
    private struct Pool {
        var idle: [ExecSession] = []
        var backoff = RestartBackoff()
        var isShutDown = false
    }

    /// A handler that starts the program when the first message comes.
    ///
    /// - Parameters:
    ///   - name: The handler's name, for its log lines.
    ///   - command: The program's absolute path, then its arguments.
    ///   - mode: How it is run.
    ///   - environment: The names to pass on from our environment.
    ///   - logger: Takes what the program writes to its standard error.
    ///   - group: Runs the pipes.
    package init(
        name: String,
        command: [String],
        mode: Mode,
        environment: [String] = ExecHandler.passedEnvironment,
        logger: Logger,
        group: MultiThreadedEventLoopGroup = .singleton
    ) {
        // A write to a process that has ended must fail instead of killing us with SIGPIPE.
        signal(SIGPIPE, SIG_IGN)
        let passed = environment.compactMap { name in getenv(name).map { "\(name)=\(String(cString: $0))" } }
        self.program = ChildProgram(command: command, environment: passed)
        self.mode = mode
        self.output = ExecOutputLog(handler: name, logger: logger)
        self.group = group
    }

    /// Gives the message to a process and reads its answer.
    package func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        let line = MessageObject.line(message, context) + [UInt8(ascii: "\n")]
        switch mode {
        case .once: return try await handleOnce(line, context)
        case .stream: return try await handleStream(line, message, context)
        }
    }

    /// Closes the processes' standard inputs, waits a moment, and kills those that are left.
    package func shutdown() async {
        let sessions = pool.withLock { pool in
            pool.isShutDown = true
            return pool.idle
        }
        await withDiscardingTaskGroup { tasks in
            for session in sessions { tasks.addTask { await session.close() } }
        }
    }

    // MARK: once

    private func handleOnce(_ line: [UInt8], _ context: HandlerContext) async throws -> HandlerOutcome {
        try await waitForBackoff()
        let exit: ChildProcess.Exit
        do {
            exit = try await ExecProcess.run(
                program,
                input: line,
                deadline: context.deadline,
                output: output,
                on: group.next()
            )
        } catch {
            throw unavailable(error)
        }
        try Task.checkCancellation()
        pool.withLock { $0.backoff.succeeded() }
        if exit == .signal(SIGKILL), context.timeLeft == .zero { throw Self.failure(.timedOut) }
        return ExecProcess.outcome(of: exit)
    }

    // MARK: stream

    private func handleStream(
        _ line: [UInt8],
        _ message: UpstreamMessage,
        _ context: HandlerContext
    ) async throws -> HandlerOutcome {
        while true {
            let session = try await checkOut()
            let answer: [UInt8]
            do {
                answer = try await session.exchange(line, deadline: context.deadline)
            } catch ExecSession.Failure.notSent {
                // It died between two messages and has not seen this one.
                try Task.checkCancellation()
                noteEnd(of: session, reason: "closed")
                continue
            } catch ExecSession.Failure.ended(let end) {
                try Task.checkCancellation()
                noteEnd(of: session, reason: "\(end)")
                throw Self.failure(end)
            }
            guard let outcome = ExecAnswer.parse(answer, about: message.messageKey) else {
                // It does not follow the protocol, so its next line can't be trusted either.
                session.stop()
                noteEnd(of: session, reason: "answer out of shape", isFailure: true)
                throw HandlerVerdictError(
                    .retry(
                        after: nil,
                        HandlerFailure(
                            group: "exec answer out of shape",
                            detail:
                                "the program's answer is not {\"outcome\": \"done\"|\"retry\"|\"reject\"}: "
                                + String(decoding: answer.prefix(200), as: UTF8.self)
                        )
                    )
                )
            }
            await checkIn(session)
            return outcome
        }
    }

    private func checkOut() async throws -> ExecSession {
        let idle: ExecSession? = pool.withLock { pool in
            while let session = pool.idle.popLast() {
                if session.isAlive { return session }
                if !session.hasAnswered { pool.backoff.died(now: .now) }
            }
            return nil
        }
        if let idle { return idle }
        try await waitForBackoff()
        do {
            return try await ExecSession.start(
                program,
                lineLimit: Self.answerLimit,
                output: output,
                on: group.next()
            )
        } catch {
            throw unavailable(error)
        }
    }

    private func checkIn(_ session: ExecSession) async {
        let isKept = pool.withLock { pool in
            pool.backoff.succeeded()
            if !pool.isShutDown { pool.idle.append(session) }
            return !pool.isShutDown
        }
        if !isKept { await session.close() }
    }

    private func noteEnd(of session: ExecSession, reason: String, isFailure: Bool = false) {
        output.ended(reason)
        pool.withLock { pool in
            if isFailure || !session.hasAnswered { pool.backoff.died(now: .now) }
        }
    }

    // MARK: Failures

    /// Throws while the program must not be started yet; waits if that is only a moment.
    private func waitForBackoff() async throws {
        let (wait, isPacing) = pool.withLock { ($0.backoff.wait(now: .now), $0.backoff.isPacing) }
        guard let wait else { return }
        guard !isPacing else { return try await Task.sleep(for: wait) }
        throw HandlerVerdictError(
            .unavailable(
                after: wait,
                HandlerFailure(group: "exec program ended repeatedly", detail: "the program will be restarted later")
            )
        )
    }

    private func unavailable(_ error: any Error) -> HandlerVerdictError {
        let wait = pool.withLock { pool in
            pool.backoff.failed(now: .now)
            return pool.backoff.wait(now: .now)
        }
        let reason = (error as? SpawnError)?.reason ?? "\(error)"
        return HandlerVerdictError(
            .unavailable(
                after: wait,
                HandlerFailure(
                    group: "exec program can not be started",
                    detail:
                        "cannot start \(program.command.first ?? ""): \(reason); check that it exists and is executable"
                )
            )
        )
    }

    private static func failure(_ end: ExecConversation.End) -> HandlerVerdictError {
        let text =
            switch end {
            case .closed: "exec program ended before it answered"
            case .unasked: "exec program wrote more than one line for a message"
            case .lineTooLong: "exec program answered a line over the limit of \(answerLimit) bytes"
            case .timedOut: "exec program gave no answer in time and was killed"
            case .stopped: "exec program was stopped"
            }
        let failure = HandlerFailure(group: text, detail: text)
        // A hang may be the program's fault; every other end is this message's.
        return HandlerVerdictError(end == .timedOut ? .down(after: nil, failure) : .retry(after: nil, failure))
    }
}
