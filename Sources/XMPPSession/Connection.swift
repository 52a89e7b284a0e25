import Logging
import NIOCore
package import Pipeline
import Synchronization
package import Telemetry
import XMPP

/// One XMPP connection that receives, from TCP connect to its end: what the rest of the worker holds of it.
///
/// All state is confined to the connection's event loop, in its ``StreamHandler`` and ``MessageReceiver``; this is the part
/// that any thread may call.
package final class Connection: AckSink {
    /// What connections share.
    package struct Environment: Sendable {
        /// Where they hand over what they read.
        package var ingest: IngestQueue
        /// Gives each copy its `received_at`.
        package var clock: ArrivalClock
        /// Where they count.
        package var metrics: Metrics
        /// The connections that are open.
        package var open = OpenConnections()

        package init(ingest: IngestQueue, clock: ArrivalClock, metrics: Metrics) {
            self.ingest = ingest
            self.clock = clock
            self.metrics = metrics
        }
    }

    private static let lastNumber = Atomic<Int>(0)

    /// The connection's number within the process, from 1.
    package let number: Int
    private let settings: SharedSettings
    private let environment: Environment
    private let logger: Logger
    private let eventLoop: any EventLoop
    /// Made by ``open()``, on the event loop.
    private let handler: NIOLoopBoundBox<StreamHandler<MessageReceiver>?>
    private let turnPromise: EventLoopPromise<ConnectionTurn>
    private let endPromise: EventLoopPromise<SessionEnd>

    /// A connection that is not open yet.
    init(
        settings: SharedSettings,
        on eventLoop: any EventLoop,
        environment: Environment,
        logger: Logger
    ) {
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

    /// Begins to connect; ``whenTurning(_:)`` and ``ended`` tell how it goes.
    ///
    /// To be called once, before everything else.
    ///
    /// - Parameters:
    ///   - suspended: The stream that is to go on over this connection; nil for none.
    ///   - place: Given back once the connection is bound, or has ended.
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
            let stream = StreamHandler(settings: settings, clock: environment.clock, delegate: receiver)
            handler.value = stream
            // Where all are to close, it is told so at once; before it connects, which may be its end.
            environment.open.insert(self)
            stream.connect(on: eventLoop)
        }
    }

    /// Calls a function once a new connection is called for: at draining, or at the end.
    func whenTurning(_ body: @escaping @Sendable (ConnectionTurn) -> Void) {
        turnPromise.futureResult.whenSuccess { [eventLoop] turn in
            // After the handler has done all that belongs to it.
            eventLoop.execute { body(turn) }
        }
    }

    /// The end.
    package var ended: SessionEnd {
        get async { await endPromise.futureResult.value }
    }

    /// The same for those that don't wait in a task.
    var end: EventLoopFuture<SessionEnd> { endPromise.futureResult }

    /// Calls a function on the connection's event loop once nothing that came over this connection is in flight.
    ///
    /// To be asked when it has ended, and once.
    func whenSettled(_ body: @escaping @Sendable () -> Void) {
        eventLoop.execute { [eventLoop, handler] in
            let next = { @Sendable in eventLoop.execute(body) }
            guard let stream = handler.value, stream.session?.isSettled == false else { return next() }
            stream.delegate.allSettled = next
        }
    }

    /// Calls a function on the connection's event loop once it has ended and nothing that came over it is in flight.
    ///
    /// In place of ``whenSettled(_:)``.
    func whenGone(_ body: @escaping @Sendable () -> Void) {
        endPromise.futureResult.whenSuccess { [self] _ in whenSettled(body) }
    }

    /// Calls a function on the connection's event loop with the stream that goes on over the next connection; nil where there is
    /// none.
    ///
    /// To be asked once, when it has ended and all has settled.
    func takeSuspended(_ body: @escaping @Sendable (SuspendedStream?) -> Void) {
        eventLoop.execute { [handler] in body(handler.value?.takeSuspended()) }
    }

    /// Ends the connection in order: no more reading, acks for what has committed, `</stream:stream>`, close_notify.
    package func shutDown() {
        eventLoop.execute { [handler] in handler.value?.shutDown() }
    }

    /// Ends the connection in order at once: what has not committed is not waited for, and comes again.
    func closeNow() {
        eventLoop.execute { [handler] in handler.value?.closeNow() }
    }

    package func settled(_ copies: SettledCopies) {
        eventLoop.execute { [handler] in handler.value?.settled(copies) }
    }
}
