import Dispatcher
import Glibc
import Logging
import Processes
import UpstreamKit

/// Handler kind `exec`: gives messages to a user's program in any language.
///
/// In `stream` mode processes are long-lived and take one message at a time, a line each way; there are at most as many
/// as the handler's concurrency. In `once` mode there is a process per message. No shell is used, and the environment
/// holds only the allowed names.
final class ExecHandler: ContainedHandler {
    enum Mode: String, CaseIterable, Sendable {
        case stream
        case once
    }

    /// The environment variables passed on if they are set.
    static let passedEnvironment = ["PATH", "LANG", "LC_ALL", "TZ"]

    static let answerLimit = 64 * 1024

    private let program: ChildProgram
    private let mode: Mode
    private let pool: ExecSessionPool

    /// A handler that starts the program for the first message and logs its standard error.
    ///
    /// `command` begins with an absolute path; `environment` are the names to pass on from our environment.
    init(
        name: String,
        command: [String],
        mode: Mode,
        environment: [String] = ExecHandler.passedEnvironment,
        logger: Logger
    ) {
        self.program = ChildProgram(passingFew: command, environment)
        self.mode = mode
        pool = ExecSessionPool(subject: "exec program", handler: name, logger: logger)
    }

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        let line = MessageObject.line(message, context) + [UInt8(ascii: "\n")]
        switch mode {
        case .once: return try await handleOnce(line, context)
        case .stream: return try await handleStream(line, message, context)
        }
    }

    /// Closes the processes' standard inputs, waits a moment, and kills the rest.
    func shutdown() async {
        await pool.shutdown()
    }

    private func handleOnce(_ line: [UInt8], _ context: HandlerContext) async throws -> HandlerOutcome {
        try await pool.waitForBackoff()
        let exit: ChildProcess.Exit
        do {
            exit = try await ExecProcess.run(program, input: line, deadline: context.deadline, output: pool.output)
        } catch {
            throw unavailable(error)
        }
        try Task.checkCancellation()
        pool.succeeded()
        if exit == .signal(SIGKILL), context.timeLeft == .zero { throw Self.failure(.timedOut) }
        let verdict = ExecProcess.verdict(of: exit)
        guard case .done = verdict else { throw HandlerVerdictError(verdict) }
        return .done
    }

    private func handleStream(
        _ line: [UInt8],
        _ message: UpstreamMessage,
        _ context: HandlerContext
    ) async throws -> HandlerOutcome {
        while true {
            let session = try await pool.checkOut { try await self.start() }
            let answer: [UInt8]
            do {
                answer = try await session.exchange(line, deadline: context.deadline)
            } catch ExecSession.Failure.notSent {
                try Task.checkCancellation()
                // It broke the rules between two messages and has not seen this one.
                if session.hasAnswered {
                    pool.noteEnd(of: session, reason: "closed")
                    continue
                }
                pool.output.ended("closed")
                throw HandlerVerdictError.unavailable(
                    after: pool.startFailed(),
                    "exec program reads no message",
                    "the program ended, closed its standard input or wrote a line before it read a message"
                )
            } catch ExecSession.Failure.ended(let end) {
                try Task.checkCancellation()
                pool.noteEnd(of: session, reason: "\(end)")
                throw Self.failure(end)
            }
            guard let outcome = ExecAnswer.parse(answer, about: message.messageKey) else {
                // It breaks the protocol, so its next line can't be trusted either.
                session.stop()
                pool.noteEnd(of: session, reason: "answer out of shape", isFailure: true)
                let start = String(decoding: answer.prefix(200), as: UTF8.self)
                throw HandlerVerdictError.retry(
                    "exec answer out of shape",
                    "the program's answer is not {\"outcome\": \"done\"|\"retry\"|\"reject\"}: \(start)"
                )
            }
            await pool.checkIn(session)
            return outcome
        }
    }

    private func start() async throws -> ExecSession {
        do {
            return try await ExecSession.start(program, shape: .line(limit: Self.answerLimit), output: pool.output)
        } catch {
            throw unavailable(error)
        }
    }

    private func unavailable(_ error: any Error) -> HandlerVerdictError {
        let wait = pool.startFailed()
        let reason = (error as? SpawnError)?.reason ?? "\(error)"
        return .unavailable(
            after: wait,
            "exec program can not be started",
            "cannot start \(program.command.first ?? ""): \(reason); check that it exists and is executable"
        )
    }

    private static func failure(_ end: ExecConversation.End) -> HandlerVerdictError {
        let text =
            switch end {
            case .closed: "exec program ended before it answered"
            case .unasked: "exec program wrote more than one line for a message"
            case .tooLong: "exec program answered a line over the limit of \(answerLimit) bytes"
            case .timedOut: "exec program gave no answer in time and was killed"
            case .stopped: "exec program was stopped"
            }
        let failure = HandlerFailure(group: text, detail: text)
        // A hang may be the program's fault; every other end is this message's.
        return HandlerVerdictError(end == .timedOut ? .down(after: nil, failure) : .retry(after: nil, failure))
    }
}

extension ChildProgram {
    /// A program with those of these environment variables that are set.
    init(passingFew command: [String], _ names: [String] = ExecHandler.passedEnvironment) {
        let environment = names.compactMap { name in getenv(name).map { "\(name)=\(String(cString: $0))" } }
        self.init(command: command, environment: environment)
    }
}
