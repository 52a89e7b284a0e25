import Dispatcher
import Logging
import Processes
import Synchronization
import UpstreamKit
import Vocabulary

/// Handler kind `plugin`: gives messages to a shared library, which `upstream-plugin-host` loads into a separate
/// process.
///
/// Waiting messages share a call (``PluginQueue``). A call whose process ends settles the messages that have an
/// outcome; the others are repeated one by one, and an attempt counts only for a message that was alone
/// (``PluginVerdict``). The timeout applies to each call, not to a message's wait for it.
final class PluginHandler: ContainedHandler {
    struct Options: Sendable, Equatable {
        var host = ""
        var library = ""
        var configuration = ""
        /// The most processes for messages that never failed; there are up to four more for those that did.
        var processes = 1
        /// The most bytes of address space for each; 0 for no limit.
        var memory = 0
        /// The time limit for a call, and for loading the library.
        var timeout = Duration.zero
        /// The most messages at the same time: the handler's concurrency.
        var messages = 1
    }

    /// The dispatcher's limit for an attempt: calls have their own limits, and a message may wait for many of them.
    static let attemptTimeout = Duration.seconds(86_400)

    private struct Waiter {
        /// Nil once the message is cancelled.
        var answer: Promise<PluginVerdict?>
        var call: Int?
    }

    private struct Call {
        var waiting: Int
        var session: ExecSession?
    }

    private struct State {
        var queue: PluginQueue
        var waiters: [PluginQueue.ID: Waiter] = [:]
        var calls: [Int: Call] = [:]
        var callers: [Int: Task<Void, Never>] = [:]
        var last: PluginQueue.ID = 0
        var lastCaller = 0
    }

    private let options: Options
    private let pool: ExecSessionPool
    private let program: ChildProgram
    private let state: Mutex<State>

    /// A handler that starts the host for the first message; `logger` receives the plugin's standard output and error.
    init(name: String, options: Options, logger: Logger) {
        self.options = options
        program = ChildProgram(passingFew: [options.host, options.library])
        let alone = min(4, max(1, options.messages))
        // As many as there can be calls: to replace a process, the library would be loaded anew.
        let mostIdle = options.processes + alone
        pool = ExecSessionPool(subject: "plugin host", handler: name, logger: logger, mostIdle: mostIdle)
        let batch = min(max(1, options.messages / options.processes), PluginFrame.messageLimit)
        let (bytes, together) = (PluginFrame.byteLimit, options.processes)
        state = Mutex(State(queue: PluginQueue(batch: batch, bytes: bytes, together: together, alone: alone)))
    }

    /// Gives the message to the plugin: alone if it failed before, or after a call with it went wrong.
    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        let bytes = PluginFrame.message(message, context)
        var track: PluginQueue.Track = context.attempt > 1 ? .alone : .together
        while true {
            switch await ask(bytes, track) {
            case .settled(.done): return .done
            case .settled(let verdict): throw HandlerVerdictError(verdict)
            case .again: track = .alone
            case nil: throw CancellationError()
            }
        }
    }

    /// Ends the hosts, which give the plugin time to close, once no message is wanted: it cuts off calls and openings.
    func shutdown() async {
        let callers = state.withLock { Array($0.callers.values) }
        for caller in callers { caller.cancel() }
        await pool.shutdown()
        for caller in callers { await caller.value }
    }

    var waiting: Int { state.withLock { $0.queue.count } }

    private func ask(_ bytes: [UInt8], _ track: PluginQueue.Track) async -> PluginVerdict? {
        let answer = Promise<PluginVerdict?>()
        let id = state.withLock { state -> PluginQueue.ID? in
            guard !Task.isCancelled else { return nil }
            state.last += 1
            state.waiters[state.last] = Waiter(answer: answer)
            if state.queue.append(.init(id: state.last, bytes: bytes), to: track) { begin(track, &state) }
            return state.last
        }
        guard let id else { return nil }
        return await withTaskCancellationHandler {
            await answer.value
        } onCancel: {
            cancelled(id)
        }
    }

    /// Starts another caller; no child task, as it serves several messages: cancelling one must not cut the others off.
    private func begin(_ track: PluginQueue.Track, _ state: inout State) {
        state.lastCaller += 1
        let caller = state.lastCaller
        state.callers[caller] = Task { await serve(track, caller) }
    }

    /// Cancels a message; ends its call if no other message of it is wanted.
    private func cancelled(_ id: PluginQueue.ID) {
        let answer = state.withLock { state -> Promise<PluginVerdict?>? in
            guard let waiter = state.waiters.removeValue(forKey: id) else { return nil }
            guard let call = waiter.call else {
                state.queue.remove(id)
                return waiter.answer
            }
            state.calls[call]?.waiting -= 1
            // Under the lock: once the call has its answer, the process may be another call's.
            if state.calls[call]?.waiting == 0 { state.calls[call]?.session?.stop() }
            return waiter.answer
        }
        answer?.fulfil(nil)
    }

    /// Makes calls as long as messages wait.
    private func serve(_ track: PluginQueue.Track, _ caller: Int) async {
        while true {
            let batch = state.withLock { state in
                let batch = state.queue.next(track)
                guard !batch.isEmpty else {
                    state.callers[caller] = nil
                    return batch
                }
                for entry in batch { state.waiters[entry.id]?.call = caller }
                state.calls[caller] = Call(waiting: batch.count)
                return batch
            }
            guard !batch.isEmpty else { return }
            let verdicts = await call(batch.map(\.bytes), caller)
            let answers = state.withLock { state in
                state.calls[caller] = nil
                return zip(batch, verdicts).compactMap { entry, verdict in
                    state.waiters.removeValue(forKey: entry.id).map { ($0.answer, verdict) }
                }
            }
            for (answer, verdict) in answers { answer.fulfil(verdict) }
        }
    }

    /// Calls the plugin once and returns the verdict for each message.
    private func call(_ messages: [[UInt8]], _ caller: Int) async -> [PluginVerdict] {
        func all(_ verdict: HandlerVerdict) -> [PluginVerdict] { messages.map { _ in .settled(verdict) } }
        let request = PluginFrame.handling(messages, timeout: options.timeout)
        // Those that had ended before; from the pool there may be as many.
        var ended = 0
        while true {
            let session: ExecSession
            do {
                session = try await pool.checkOut { try await self.start() }
            } catch {
                return all(HandlerVerdict(error: error, isCancelled: Task.isCancelled))
            }
            let isWanted = state.withLock { state in
                state.calls[caller]?.session = session
                return state.calls[caller]?.waiting != 0
            }
            if !isWanted { session.stop() }
            let answer: [UInt8]
            do throws(ExecSession.Failure) {
                // From here on a cancellation must not end a process that is back in the pool.
                defer { state.withLock { $0.calls[caller]?.session = nil } }
                answer = try await session.exchange(request, deadline: .now + options.timeout * 2 + .seconds(5))
            } catch .notSent {
                // It ended between two calls. If we stopped it ourselves, nobody waits.
                if !isWanted || Task.isCancelled { return all(.cancelled) }
                pool.noteEnd(of: session, reason: "closed")
                ended += 1
                guard ended <= pool.mostIdle else { return all(.interrupted(Self.ended)) }
                continue
            } catch {
                if Task.isCancelled { return all(.cancelled) }
                // No plugin's code runs in the host, so its end is no message's fault.
                pool.noteEnd(of: session, reason: "the host ended")
                return all(.interrupted(Self.ended))
            }
            guard let reply = PluginFrame.handled(answer, count: messages.count) else {
                session.stop()
                pool.noteEnd(of: session, reason: "answer out of shape", isFailure: true)
                return all(.interrupted(Self.ended))
            }
            if reply.end != .returned, reply.end != .unavailable { pool.output.ended(reply.detail) }
            await pool.checkIn(session, works: reply.end != .notLoaded)
            return reply.outcomes.map { .of($0, reply, isAlone: messages.count == 1) }
        }
    }

    /// Starts a host that loads the library; throws ``HandlerVerdictError`` if that fails.
    private func start() async throws -> ExecSession {
        let session: ExecSession
        do {
            let shape = AnswerShape.frame(limit: PluginFrame.replyLimit)
            session = try await ExecSession.start(program, shape: shape, stop: .terminate, output: pool.output)
        } catch {
            throw unavailable("cannot start \(options.host): \((error as? SpawnError)?.reason ?? "\(error)")")
        }
        let request = PluginFrame.opening(
            timeout: options.timeout,
            memory: options.memory,
            configuration: options.configuration
        )
        let answer = try? await session.exchange(request, deadline: .now + options.timeout + .seconds(5))
        guard let answer, let reply = PluginFrame.opened(answer) else {
            session.stop()
            try Task.checkCancellation()
            throw unavailable("\(options.host) does not answer as a plugin host of this version does")
        }
        guard reply.end == .returned else {
            await session.close()
            pool.output.ended(reply.detail)
            throw unavailable(reply.detail)
        }
        return session
    }

    private func unavailable(_ detail: String) -> HandlerVerdictError {
        .unavailable(after: pool.startFailed(), "plugin can not be loaded", detail)
    }

    private static let ended = HandlerFailure(
        group: "plugin host ended",
        detail: "the process that supervises the plugin ended while it had the message; the plugin itself can't end it"
    )
}
