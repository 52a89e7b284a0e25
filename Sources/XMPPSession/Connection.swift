package import Ingest
import Logging
import NIOCore
import Synchronization
package import Telemetry
package import Vocabulary
import XMPP

/// A receiving XMPP connection as seen by the rest of the worker, from any thread.
package final class Connection: AckSink {
    package struct Environment: Sendable {
        package var ingest: IngestQueue
        /// Gives each copy its `received_at`.
        package var clock: ArrivalClock
        package var metrics: Metrics
        package var open = OpenConnections()
        package var random = RandomSource.system
        /// How far archives were read; nil if none is.
        package var archives: (any ArchivePoints)?
        /// The worker's name as a reader of archives.
        package var reader = ""

        package init(ingest: IngestQueue, clock: ArrivalClock, metrics: Metrics) {
            self.ingest = ingest
            self.clock = clock
            self.metrics = metrics
        }
    }

    private static let lastNumber = Atomic<Int>(0)

    /// The connection's number in this process, from 1.
    package let number: Int
    private let settings: SharedSettings
    private let environment: Environment
    private let logger: Logger
    private let eventLoop: any EventLoop
    /// Made by ``open()``, on the event loop.
    private let handler: NIOLoopBoundBox<StreamHandler<MessageReceiver>?>
    private let turnPromise: EventLoopPromise<ConnectionTurn>
    private let endPromise: EventLoopPromise<SessionEnd>

    init(settings: SharedSettings, on eventLoop: any EventLoop, environment: Environment, logger: Logger) {
        number = Self.lastNumber.add(1, ordering: .relaxed).newValue
        self.settings = settings
        self.environment = environment
        self.eventLoop = eventLoop
        var logger = logger
        logger[.connection] = .int(number)
        self.logger = logger
        handler = .makeEmptyBox(valueType: StreamHandler<MessageReceiver>.self, eventLoop: eventLoop)
        turnPromise = eventLoop.makePromise()
        endPromise = eventLoop.makePromise()
    }

    /// Starts to connect, once; the place is given back once the connection is bound or has ended.
    func open(resuming suspended: SuspendedStream? = nil, place: OpeningGate.Place? = nil) {
        endPromise.futureResult.whenComplete { [self] _ in environment.open.remove(self) }
        eventLoop.execute { [self] in
            let receiver = MessageReceiver(
                settings: settings,
                environment: environment,
                logger: logger,
                sink: self,
                suspended: suspended,
                place: place,
                turn: turnPromise,
                end: endPromise
            )
            let stream = StreamHandler(
                settings: settings,
                clock: environment.clock,
                random: environment.random,
                delegate: receiver
            )
            handler.value = stream
            // If all connections are to close, it learns that now, before it connects.
            environment.open.insert(self)
            stream.connect(on: eventLoop)
        }
    }

    /// Calls a function once a new connection is needed: at draining, or at the end.
    func whenTurning(_ body: @escaping @Sendable (ConnectionTurn) -> Void) {
        turnPromise.futureResult.whenSuccess { [eventLoop] turn in
            // After the handler has finished with the event.
            eventLoop.execute { body(turn) }
        }
    }

    var end: EventLoopFuture<SessionEnd> { endPromise.futureResult }

    /// Calls a function on the connection's event loop once none of its copies is in flight; once, after the end.
    func whenSettled(_ body: @escaping @Sendable () -> Void) {
        eventLoop.execute { [eventLoop, handler] in
            let next = { @Sendable in eventLoop.execute(body) }
            guard let stream = handler.value, let bound = stream.bound, !bound.session.isSettled else { return next() }
            stream.delegate.allSettled = next
        }
    }

    /// Calls a function on the connection's event loop once it has ended and, instead of ``whenSettled(_:)``, settled.
    func whenGone(_ body: @escaping @Sendable () -> Void) {
        endPromise.futureResult.whenSuccess { [self] _ in whenSettled(body) }
    }

    /// Calls a function on the connection's event loop with the stream to resume over the next connection, if any;
    /// once, after the end and when all has settled.
    func takeSuspended(_ body: @escaping @Sendable (SuspendedStream?) -> Void) {
        eventLoop.execute { [handler] in body(handler.value?.takeSuspended()) }
    }

    /// How long the answer to the request for a page may take, and what came with it to be committed.
    private static let pageTimeout = TimeAmount.minutes(2)

    /// Asks our account's server about messages that it keeps, once the stream is bound, which must be without presence;
    /// one request at a time.
    ///
    /// The answer comes once all that came with it is committed; nil if the connection ends before.
    func ask<Request: StoreRequest>(_ request: Request) -> EventLoopFuture<Request.Answer?> {
        let promise = eventLoop.makePromise(of: Request.Answer?.self)
        eventLoop.execute { [handler] in
            guard let stream = handler.value else { return promise.succeed(nil) }
            stream.ask(for: AwaitedPage(request, promise))
        }
        limit(promise.futureResult)
        return promise.futureResult
    }

    /// Ends the connection where a page takes too long, but not while its messages can't be committed.
    private func limit<Answer: Sendable>(_ page: EventLoopFuture<Answer?>) {
        let timer = eventLoop.scheduleTask(in: Self.pageTimeout) { [self] in
            if handler.value?.bound?.session.isSettled ?? true { handler.value?.shutDown() } else { limit(page) }
        }
        page.whenComplete { _ in timer.cancel() }
    }

    /// Closes the connection properly: no more reading, acks for committed copies, `</stream:stream>`, close_notify.
    package func shutDown() {
        eventLoop.execute { [handler] in handler.value?.shutDownAfterPage() }
    }

    /// Closes the connection properly without waiting for uncommitted copies, which are redelivered.
    func closeNow() {
        eventLoop.execute { [handler] in handler.value?.closeNow() }
    }

    package func settled(_ copies: SettledCopies) {
        eventLoop.execute { [handler] in handler.value?.settled(copies) }
    }
}
