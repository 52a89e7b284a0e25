package import Logging
package import NIOCore
package import Pipeline
import Synchronization
import TLSWire
package import Telemetry
package import UpstreamKit
import XMLWire
import XMPP

/// One XMPP connection, from TCP connect to its end: what the rest of the worker holds of it.
///
/// All state is confined to the connection's event loop, in its ``SessionHandler``; this is the part that any thread
/// may call.
package final class Connection: AckSink {
    /// What is done with a stream once it is bound.
    package enum Purpose: Sendable {
        /// Receive and ack.
        case receive
        /// Nothing: it was to be seen that it can be bound (`check --connect`).
        case probe
    }

    /// What connections share.
    package struct Environment: Sendable {
        /// Where they hand over what they read.
        package var ingest: IngestQueue
        /// Gives each copy its `received_at`.
        package var clock: ArrivalClock
        /// Where they count.
        package var metrics: Metrics
        /// Where they stand for as long as they are open.
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
    private let settings: SenderSettings
    private let purpose: Purpose
    private let environment: Environment
    private let logger: Logger
    private let eventLoop: any EventLoop
    /// Made by ``open()``, on the event loop.
    private let handler: NIOLoopBoundBox<SessionHandler?>
    private let turnPromise: EventLoopPromise<ConnectionTurn>
    private let endPromise: EventLoopPromise<SessionEnd>

    /// A connection that is not open yet.
    package init(
        settings: SenderSettings,
        on eventLoop: any EventLoop,
        purpose: Purpose = .receive,
        environment: Environment,
        logger: Logger
    ) {
        number = Self.lastNumber.add(1, ordering: .relaxed).newValue
        self.settings = settings
        self.purpose = purpose
        self.environment = environment
        self.eventLoop = eventLoop
        var logger = logger
        logger[.connection] = .int(number)
        self.logger = logger
        handler = .makeEmptyBox(valueType: SessionHandler.self, eventLoop: eventLoop)
        turnPromise = eventLoop.makePromise()
        endPromise = eventLoop.makePromise()
    }

    /// Begins to connect; ``turn`` and ``ended`` tell how it goes.
    ///
    /// To be called once, before everything else.
    package func open() {
        environment.open.insert(self)
        endPromise.futureResult.whenComplete { [self] _ in environment.open.remove(self) }
        eventLoop.execute { [self] in
            let session = SessionHandler(
                settings: settings,
                purpose: purpose,
                environment: environment,
                logger: logger,
                sink: self,
                turn: turnPromise,
                end: endPromise
            )
            handler.value = session
            guard session.begin(on: eventLoop) else { return }
            StreamOpening.connect(settings, on: eventLoop) { [handler] in
                handler.value.map { ($0.stream, $0) }
            }
            .whenFailure { [handler] error in handler.value?.connectFailed(error) }
        }
    }

    /// What calls for a new connection: draining, or the end.
    package var turn: ConnectionTurn {
        get async { await Self.value(of: turnPromise.futureResult) }
    }

    /// The end.
    package var ended: SessionEnd {
        get async { await Self.value(of: endPromise.futureResult) }
    }

    /// Waits until nothing that came over this connection is under way any more, or the task is cancelled.
    ///
    /// To be asked once it has ended, and once.
    package func emptied() async {
        let promise = eventLoop.makePromise(of: Void.self)
        eventLoop.execute { [handler] in
            guard let session = handler.value, !session.window.isEmpty else { return promise.succeed() }
            session.emptied = promise
        }
        await withTaskCancellationHandler {
            await Self.value(of: promise.futureResult)
        } onCancel: {
            promise.succeed()
        }
    }

    /// Ends the connection in order: no more reading, acks for what has committed, `</stream:stream>`, close_notify.
    package func shutDown() {
        eventLoop.execute { [handler] in handler.value?.shutDown() }
    }

    /// Ends the connection in order at once: what has not committed is not waited for, and comes again.
    func closeNow() {
        eventLoop.execute { [handler] in handler.value?.closeNow() }
    }

    package func settled(_ messages: [IncomingMessage]) {
        eventLoop.execute { [handler] in handler.value?.settled(messages) }
    }

    /// The value of a future whose promise is only ever fulfilled.
    private static func value<Value: Sendable>(of future: EventLoopFuture<Value>) async -> Value {
        await withCheckedContinuation { continuation in
            future.whenSuccess { continuation.resume(returning: $0) }
        }
    }
}
