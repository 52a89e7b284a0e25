package import Logging
import NIOCore
package import NIOPosix
import Synchronization
import Telemetry
import XMPP

/// Keeps one sender's connections open, for as long as it runs.
///
/// Each of the `connections` slots has one stream at a time, and beside it those that are draining. Cancelling `run()`
/// is the orderly shutdown (G7): every connection stops reading, acks what has committed, says `</stream:stream>` and
/// closes; then `run()` returns.
package struct SenderService: Sendable {
    private let settings: SenderSettings
    private let group: MultiThreadedEventLoopGroup
    private let environment: Connection.Environment
    private let logger: Logger

    /// A service for one sender.
    ///
    /// - Parameters:
    ///   - settings: The sender's configuration.
    ///   - group: Where its connections run.
    ///   - environment: What all connections share.
    ///   - logger: Carries the field `sender` already.
    package init(
        settings: SenderSettings,
        group: MultiThreadedEventLoopGroup,
        environment: Connection.Environment,
        logger: Logger
    ) {
        self.settings = settings
        self.group = group
        self.environment = environment
        self.logger = logger
    }

    /// Runs until cancelled; returns when every connection has closed.
    package func run() async {
        await withTaskGroup(of: Void.self) { slots in
            for slot in 0..<settings.connections {
                var settings = settings
                settings.stream.resource = settings.stream.resource(ofSlot: slot, among: settings.connections)
                slots.addTask { [settings] in await keepOpen(settings) }
            }
        }
    }

    private func keepOpen(_ settings: SenderSettings) async {
        var policy = ReconnectPolicy()
        // The stream that goes on over the next connection, and where that is made if the server has a wish.
        var suspended: SuspendedStream?
        var redirection: (host: String, port: Int?)?
        var redirector: ReachedServer?
        var avoided: ServerTarget?
        let kept = DrainingConnections()
        await withDiscardingTaskGroup { draining in
            while !Task.isCancelled {
                if let lost = suspended, !lost.isHeld {
                    lost.abandon(environment.metrics)
                    suspended = nil
                }
                var place = settings.redirected(redirection, by: redirector)
                place.discovery?.avoided = avoided
                let connection = Connection(
                    settings: place,
                    on: group.next(),
                    environment: environment,
                    logger: logger,
                    resuming: suspended
                )
                suspended = nil
                redirection = nil
                connection.open()
                let turn = await untilCancelled(connection) { await $0.turn }
                let ending: ReconnectPolicy.Ending
                let reason: ReconnectReason
                switch turn {
                case .draining(let bound):
                    // Also where we are to end by now: it still has acks to write, and its goodbye to say.
                    let excess = kept.add(connection)
                    draining.addTask {
                        _ = await untilCancelled(connection) { await $0.ended }
                        await connection.allSettled()
                        kept.remove(connection)
                    }
                    await excess?.closed()
                    ending = .draining(bound: bound)
                    reason = .draining
                case .ended(let end):
                    // What it brought is still in memory where the database can't commit, and the next one would bring all
                    // of it again: an outage must not add a window with every connection that a server gives up on.
                    await connection.allSettled()
                    suspended = await connection.suspended()
                    // A place that has just failed is not asked again before the configured one.
                    let location = end.management == nil ? nil : suspended?.location
                    redirection = (end.otherHost ?? location).flatMap { settings.stream.redirection(to: $0) }
                    redirector = end.server
                    avoided = end.ending == .failed ? end.server?.target : nil
                    ending = end.ending
                    reason = end.reason
                }
                guard !Task.isCancelled else { continue }
                let delay = policy.delay(after: ending, random: .random(in: 0..<1))
                environment.metrics.reconnects[reason].increment()
                logger.event(
                    .info,
                    .reconnectScheduled,
                    "opening a new connection",
                    [.reason: .string(reason.text), .durationSeconds: .seconds(delay)]
                )
                if delay > .zero { try? await Task.sleep(for: delay) }
            }
        }
        suspended?.abandon(environment.metrics)
    }

    /// Waits for something of a connection; on cancellation the connection is shut down, which brings it about.
    private func untilCancelled<Value: Sendable>(
        _ connection: Connection,
        _ value: @Sendable (Connection) async -> Value
    ) async -> Value {
        await withTaskCancellationHandler {
            await value(connection)
        } onCancel: {
            connection.shutDown()
        }
    }
}

/// The draining connections of one slot, beside the one that it waits for.
private final class DrainingConnections: Sendable {
    private struct State {
        var streams = DrainingStreams()
        var members: [Int: Member] = [:]
    }

    /// A draining connection, and a stream of nothing that ends once it is gone with all it brought.
    struct Member {
        let connection: Connection
        let gone: AsyncStream<Never>
        let end: AsyncStream<Never>.Continuation

        /// Closes the connection in order and waits until it is gone, or the task is cancelled.
        func closed() async {
            connection.shutDown()
            for await _ in gone {}
        }
    }

    private let state = Mutex(State())

    /// Takes a connection in; returns the one that has to go for it.
    func add(_ connection: Connection) -> Member? {
        state.withLock { state in
            let (gone, end) = AsyncStream.makeStream(of: Never.self)
            state.members[connection.number] = Member(connection: connection, gone: gone, end: end)
            return state.streams.began(connection.number).flatMap { state.members[$0] }
        }
    }

    /// The connection is gone.
    func remove(_ connection: Connection) {
        state.withLock { state in
            state.streams.ended(connection.number)
            state.members.removeValue(forKey: connection.number)?.end.finish()
        }
    }
}
