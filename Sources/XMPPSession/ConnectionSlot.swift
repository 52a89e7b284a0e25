import Logging
import NIOCore
import NIOPosix
import Synchronization
import Telemetry
import XMPP

/// Keeps one connection open: a stream at a time, and beside it those that are draining.
///
/// A task for each slot, which waits for most of its time and holds next to nothing meanwhile: what is decided between two
/// connections is decided outside of `async` functions, whose variables would take memory for as long as the slot lives.
final class ConnectionSlot: Sendable {
    private let settings: SharedSettings
    private let group: MultiThreadedEventLoopGroup
    private let environment: Connection.Environment
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        /// Whether every connection is to end.
        var isCancelled = false
        /// The one that receives.
        var current: Connection?
        var kept = DrainingConnections()
        var policy = ReconnectPolicy()
        /// The stream that goes on over the next connection.
        var suspended: SuspendedStream?
        /// How the last connection ended; nil where it drains.
        var end: SessionEnd?
        /// Where the next connection is made, if the server has a wish.
        var redirection: (host: String, port: Int?)?
    }

    init(
        settings: SharedSettings,
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
    func run() async {
        await withTaskCancellationHandler {
            await keepOpen()
        } onCancel: {
            shutDown()
        }
    }

    private func keepOpen() async {
        while !Task.isCancelled {
            let connection = open()
            var delay = Duration.zero
            switch await connection.turn {
            case .draining(let bound):
                // Also where we are to end by now: it still has acks to write, and its goodbye to say.
                await keep(connection)?.gone()
                guard !Task.isCancelled else { continue }
                delay = self.delay(after: .draining(bound: bound), .draining)
            case .ended(let end):
                // What it brought is still in memory where the database can't commit, and the next one would bring all
                // of it again: an outage must not add a window with every connection that a server gives up on.
                await connection.allSettled()
                ended(end, await connection.suspended())
                guard !Task.isCancelled else { continue }
                delay = self.delay(after: end.ending, end.reason)
            }
            if delay > .zero { try? await Task.sleep(for: delay) }
        }
        takeSuspended()?.abandon(environment.metrics)
        for connection in state.withLock({ $0.kept.all }) { _ = await connection.ended }
    }

    /// Begins to connect.
    private func open() -> Connection {
        var suspended = takeSuspended()
        if let lost = suspended, !lost.isHeld {
            lost.abandon(environment.metrics)
            suspended = nil
        }
        let connection = Connection(settings: place(), on: group.next(), environment: environment, logger: logger)
        connection.open(resuming: suspended)
        let isLate = state.withLock { state in
            state.current = connection
            return state.isCancelled
        }
        if isLate { connection.shutDown() }
        return connection
    }

    private func takeSuspended() -> SuspendedStream? { state.withLock { $0.suspended.take() } }

    /// The settings of the next connection, after what the last one has shown.
    private func place() -> SharedSettings {
        let (redirection, end) = state.withLock { ($0.redirection.take(), $0.end.take()) }
        // A place that has just failed is not asked again before the configured one.
        let avoided = end?.ending == .failed ? end?.server?.target : nil
        guard redirection != nil || avoided != nil else { return settings }
        var place = settings.value.redirected(redirection, by: end?.server)
        place.discovery?.avoided = avoided
        return SharedSettings(place)
    }

    /// The connection has ended and all has settled.
    private func ended(_ end: SessionEnd, _ suspended: SuspendedStream?) {
        let location = end.management == nil ? nil : suspended?.location
        let redirection = (end.otherHost ?? location).flatMap { settings.value.stream.redirection(to: $0) }
        state.withLock { state in
            state.current = nil
            state.end = end
            state.suspended = suspended
            state.redirection = redirection
        }
    }

    /// The connection drains, and ends by itself; returns the one that has to go for it, which is shut down.
    private func keep(_ connection: Connection) -> DrainingConnections.Excess? {
        let excess = state.withLock { state in
            state.current = nil
            return state.kept.add(connection)
        }
        connection.whenGone { [weak self, number = connection.number] in
            self?.state.withLock { $0.kept.remove(number) }?.finish()
        }
        excess?.connection.shutDown()
        return excess
    }

    private func delay(after ending: ReconnectPolicy.Ending, _ reason: ReconnectReason) -> Duration {
        let delay = state.withLock { $0.policy.delay(after: ending, random: .random(in: 0..<1)) }
        environment.metrics.reconnects[reason].increment()
        logger.event(
            .info,
            .reconnectScheduled,
            "opening a new connection",
            [.reason: .string(reason.text), .durationSeconds: .seconds(delay)]
        )
        return delay
    }

    /// Shuts every connection down, and those that come later.
    private func shutDown() {
        let connections = state.withLock { state in
            state.isCancelled = true
            return state.kept.all + (state.current.map { [$0] } ?? [])
        }
        for connection in connections { connection.shutDown() }
    }
}

/// The draining connections of one slot, beside the one that receives.
private struct DrainingConnections {
    /// A draining connection that has to go, and a stream of nothing that ends once it is gone with all it brought.
    struct Excess {
        let connection: Connection
        let stream: AsyncStream<Never>

        /// Waits until the connection is gone, or the task is cancelled.
        func gone() async {
            for await _ in stream {}
        }
    }

    private var streams = DrainingStreams()
    private var members: [Int: Connection] = [:]
    /// Of the one that is waited for, with its number.
    private var waiting: (number: Int, end: AsyncStream<Never>.Continuation)?

    var all: [Connection] { Array(members.values) }

    /// Takes a connection in; returns the one that has to go for it.
    mutating func add(_ connection: Connection) -> Excess? {
        members[connection.number] = connection
        guard let excess = streams.began(connection.number).flatMap({ members[$0] }) else { return nil }
        let (stream, end) = AsyncStream.makeStream(of: Never.self)
        waiting = (excess.number, end)
        return Excess(connection: excess, stream: stream)
    }

    /// The connection is gone; returns what waits for it.
    mutating func remove(_ number: Int) -> AsyncStream<Never>.Continuation? {
        streams.ended(number)
        members.removeValue(forKey: number)
        guard let waiting, waiting.number == number else { return nil }
        self.waiting = nil
        return waiting.end
    }
}
