import CGlibc
import Glibc
import NIOCore
import NIOPosix
import Processes
import Synchronization

/// A running long-lived subprocess that handles one message at a time.
///
/// It is killed, with its process group, as soon as it breaks the rules of ``ExecConversation``.
final class ExecSession: Sendable {
    enum Failure: Error {
        /// The process had ended, closed its standard input or written a line before it read anything of the message.
        case notSent
        /// It ended, or was killed, while it had the message.
        case ended(ExecConversation.End)
    }

    enum Stop: Sendable {
        /// Killed, with its process group.
        case kill
        /// Asked to end, so that it can kill what it has started in other groups; killed a second later.
        case terminate
    }

    /// How long a process may take to end once its standard input is closed.
    static let grace = Duration.seconds(2)

    let terminated: EventLoopFuture<ChildProcess.Exit>

    private let child: ChildProcess
    private let channel: any Channel
    private let handler: NIOLoopBound<ExecAnswerHandler>
    private let answers = Atomic(0)

    private init(
        child: ChildProcess,
        terminated: EventLoopFuture<ChildProcess.Exit>,
        channel: any Channel,
        handler: NIOLoopBound<ExecAnswerHandler>
    ) {
        (self.child, self.terminated, self.channel, self.handler) = (child, terminated, channel, handler)
    }

    /// Starts the program; `stop` ends it if it breaks the rules, `output` receives its standard error.
    static func start(
        _ program: ChildProgram,
        shape: AnswerShape,
        stop: Stop = .kill,
        output: ExecOutputLog
    ) async throws -> ExecSession {
        let started = try await ExecChild.start(program, readsOutput: true, output)
        let (child, answers, eventLoop) = (started.process, started.output ?? -1, started.exit.eventLoop)
        do {
            let bound = try await NIOPipeBootstrap(group: eventLoop)
                .takingOwnershipOfDescriptors(input: answers, output: started.input) { channel in
                    channel.eventLoop.makeCompletedFuture {
                        let handler = ExecAnswerHandler(shape, input: fcntl(started.input, F_DUPFD_CLOEXEC, 0)) {
                            guard stop == .terminate else { return child.kill() }
                            child.send(SIGTERM)
                            eventLoop.scheduleTask(in: .seconds(1)) { child.kill() }
                        }
                        try channel.pipeline.syncOperations.addHandler(handler)
                        return (channel, NIOLoopBound(handler, eventLoop: channel.eventLoop))
                    }
                }
            started.exit.whenComplete { _ in bound.1.value.processEnded(answers) }
            return ExecSession(child: child, terminated: started.exit, channel: bound.0, handler: bound.1)
        } catch {
            // Whether or not NIO has taken the descriptors, a process without pipes is useless.
            child.kill()
            throw error
        }
    }

    var isAlive: Bool { channel.isActive }

    var hasAnswered: Bool { answers.load(ordering: .relaxed) > 0 }

    /// Exchanges a request for an answer, both without delimiter; cancelling, or the deadline, kills the process.
    func exchange(_ request: [UInt8], deadline: ContinuousClock.Instant) async throws(Failure) -> [UInt8] {
        let wait = TimeAmount(max(.zero, ContinuousClock.now.duration(to: deadline)))
        let handler = self.handler
        let reply = channel.eventLoop.makePromise(of: [UInt8].self)
        do {
            let answer = try await withTaskCancellationHandler {
                channel.eventLoop.execute { handler.value.exchange(request, timeout: wait, reply: reply) }
                return try await reply.futureResult.get()
            } onCancel: {
                stop()
            }
            answers.add(1, ordering: .relaxed)
            return answer
        } catch {
            throw error as? Failure ?? .ended(.closed)
        }
    }

    func stop() {
        channel.eventLoop.execute { [handler] in handler.value.end(.stopped) }
    }

    /// Closes its standard input, which asks a well-behaved program to end, and kills the rest after ``grace``.
    func close() async {
        channel.close(promise: nil)
        _ = try? await terminated.get()
    }
}

/// Runs an ``ExecConversation`` over a subprocess's pipes.
private final class ExecAnswerHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private var conversation: ExecConversation
    private var reply: EventLoopPromise<[UInt8]>?
    private var timeout: Scheduled<Void>?
    private var context: ChannelHandlerContext?
    /// Where an ended process may have left unread output.
    private var leftover: CInt?
    /// The end of the process's standard input once more; below 0 without one.
    ///
    /// Open as long as the handler is in its channel, it tells what is unread even once the channel has closed its own.
    private var input: CInt
    /// The length of the request, if it is written at once and alone in its pipe: then what is unread can be told.
    private var tellable: Int?
    /// Whether the pipe took nothing of the request: its other end was closed.
    private var isRefused = false
    private let kill: () -> Void

    init(_ shape: AnswerShape, input: CInt, kill: @escaping () -> Void) {
        self.conversation = ExecConversation(shape)
        self.input = input
        self.kill = kill
    }

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
        if input >= 0 { _ = Glibc.close(input) }
        input = -1
    }

    func exchange(_ request: [UInt8], timeout: TimeAmount, reply: EventLoopPromise<[UInt8]>) {
        guard let context else { return reply.fail(ExecSession.Failure.notSent) }
        switch conversation.send() {
        case .refuse: reply.fail(ExecSession.Failure.notSent)
        case .write:
            self.reply = reply
            self.timeout = context.eventLoop.assumeIsolated().scheduleTask(in: timeout) { self.end(.timedOut) }
            let isAlone = input >= 0 && upstream_unread(input) == 0 && request.count <= upstream_pipe_size(input)
            (tellable, isRefused) = (isAlone ? request.count : nil, false)
            // A failed write shows as a closed channel, later than here.
            let written = context.eventLoop.makePromise(of: Void.self)
            written.futureResult.assumeIsolated().whenFailure { _ in self.isRefused = true }
            context.writeAndFlush(wrapOutboundOut(ByteBuffer(bytes: request)), promise: written)
        }
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch conversation.receive(unwrapInboundIn(data).readableBytesView) {
        case .wait, .ignore: break
        case .answer(let answer):
            // Another answer to the message before; one that has read this one as well can't be told from its own.
            if isUnread { return end(.unasked) }
            timeout?.cancel()
            let reply = self.reply
            self.reply = nil
            reply?.succeed(answer)
        case .end(let end): finish(end)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if let leftover { processEnded(leftover) }
        context.fireChannelReadComplete()
    }

    /// The process has ended: its output still counts, even if other processes hold the pipe open.
    func processEnded(_ output: CInt) {
        guard let context, context.channel.isActive else { return }
        leftover = output
        if upstream_unread(output) == 0 { end(.closed) }
    }

    func channelInactive(context: ChannelHandlerContext) {
        end(.closed)
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        end(.closed)
    }

    func end(_ end: ExecConversation.End) {
        if conversation.end(end) { finish(end) }
    }

    /// Whether nothing of the request was read.
    private var isUnread: Bool {
        guard let tellable else { return false }
        return isRefused || input >= 0 && upstream_unread(input) >= tellable
    }

    private func finish(_ end: ExecConversation.End) {
        timeout?.cancel()
        let isUnread = [.closed, .unasked].contains(end) && isUnread
        if end == .closed, reply == nil, let context {
            // Closing the channel closes its input: it may clean up, but not for ever.
            context.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(ExecSession.grace)) { self.kill() }
        } else {
            kill()
        }
        let reply = self.reply
        self.reply = nil
        reply?.fail(isUnread ? ExecSession.Failure.notSent : .ended(end))
        context?.close(promise: nil)
    }
}
