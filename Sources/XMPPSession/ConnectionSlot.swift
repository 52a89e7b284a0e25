import Logging
import NIOCore
import Synchronization
import Telemetry
import XMPP

/// Keeps one connection open: one stream at a time, and beside it those that are draining.
///
/// Not a task: it waits most of the time, for which a task would take 2.6 KB. The awaited event calls ``goOn()``.
final class ConnectionSlot: Sendable {
    private let settings: SharedSettings
    /// Runs its connections; chosen once for each slot, so that they spread over the event loops.
    private let eventLoop: any EventLoop
    private let environment: Connection.Environment
    private let gate: OpeningGate
    private let logger: Logger
    private let state = Mutex(State())
    private let endPromise: EventLoopPromise<Void>

    private struct State {
        /// Whether every connection is to end.
        var isCancelled = false
        /// The receiving connection.
        var current: Connection?
        var kept = DrainingConnections()
        var policy = ReconnectPolicy()
        /// The stream to resume over the next connection.
        var suspended: SuspendedStream?
        /// How the last connection ended; nil if it drains.
        var end: SessionEnd?
        /// Where to make the next connection, if the server has named a host.
        var redirection: (host: String, port: Int?)?
        /// What to do after the awaited event.
        var next: (@Sendable () -> Void)?
        /// The timer of an awaited delay.
        var timer: Scheduled<Void>?
    }

    /// A slot that is not open yet; ``start()`` must follow.
    init(
        settings: SharedSettings,
        on eventLoop: any EventLoop,
        environment: Connection.Environment,
        gate: OpeningGate,
        logger: Logger
    ) {
        self.settings = settings
        self.eventLoop = eventLoop
        self.environment = environment
        self.gate = gate
        self.logger = logger
        endPromise = eventLoop.makePromise()
    }

    /// Opens the first connection; call it once.
    func start() { waitForPlace() }

    /// Waits until every connection has closed, after ``shutDown()``.
    var ended: Void {
        get async { await endPromise.futureResult.value }
    }

    /// Shuts down every connection, including later ones.
    func shutDown() {
        let (connections, next, timer) = state.withLock { state in
            state.isCancelled = true
            let connections = state.kept.all + (state.current.map { [$0] } ?? [])
            return (connections, state.next.take(), state.timer.take())
        }
        for connection in connections { connection.shutDown() }
        timer?.cancel()
        next?()
    }

    /// Sets what to do after the next event; does it at once if every connection is to end.
    ///
    /// - Returns: Whether the event is awaited.
    private func wait(_ next: @escaping @Sendable () -> Void) -> Bool {
        let isLate = state.withLock { state in
            if !state.isCancelled { state.next = next }
            return state.isCancelled
        }
        if isLate { next() }
        return !isLate
    }

    /// Handles the awaited event.
    private func goOn() { state.withLock { $0.next.take() }?() }

    // MARK: A connection, from its place at the gate to its end

    private func waitForPlace() {
        guard wait({ [self] in finish() }) else { return }
        gate.enter(on: eventLoop) { [self] place in
            // If every connection is to end, nobody waits any more.
            guard state.withLock({ $0.next.take() }) != nil else { return false }
            open(place)
            return true
        }
    }

    private func open(_ place: OpeningGate.Place) {
        var suspended = takeSuspended()
        if let lost = suspended, !lost.isHeld {
            lost.abandon(environment.metrics)
            suspended = nil
        }
        let connection = Connection(settings: target(), on: eventLoop, environment: environment, logger: logger)
        connection.open(resuming: suspended, place: place)
        let isLate = state.withLock { state in
            state.current = connection
            return state.isCancelled
        }
        if isLate { connection.shutDown() }
        connection.whenTurning { [self] turn in
            switch turn {
            case .draining(let bound): draining(connection, bound: bound)
            case .ended(let end): ended(connection, end)
            }
        }
    }

    /// Handles a connection that drains and will end by itself; closes the oldest if there are too many.
    private func draining(_ connection: Connection, bound: Duration) {
        let next = { @Sendable [self] in reopen(after: .draining(bound: bound), .draining) }
        let (excess, isCancelled) = state.withLock { state in
            state.current = nil
            let excess = state.kept.add(connection)
            if excess != nil, !state.isCancelled { state.next = next }
            return (excess, state.isCancelled)
        }
        connection.whenGone { [self] in
            if state.withLock({ $0.kept.remove(connection.number) }) { goOn() }
        }
        // It still has acks to write, and its closing tag.
        excess?.shutDown()
        if excess == nil || isCancelled { next() }
    }

    /// Handles the end of a connection.
    ///
    /// While the database can't commit, its copies stay in memory, and the next connection would bring them again. So the
    /// slot waits for them to settle: else every connection that a server gives up on would add a window in an outage.
    private func ended(_ connection: Connection, _ end: SessionEnd) {
        let isWaiting = wait { [self] in
            connection.takeSuspended { [self] suspended in
                settled(end, suspended)
                reopen(after: end.ending, end.reason)
            }
        }
        if isWaiting { connection.whenSettled { [self] in goOn() } }
    }

    /// Opens the next connection after its delay.
    private func reopen(after ending: ReconnectPolicy.Ending, _ reason: ReconnectReason) {
        guard !state.withLock({ $0.isCancelled }) else { return finish() }
        let delay = delay(after: ending, reason)
        guard delay > .zero else { return waitForPlace() }
        guard wait({ [self] in waitForPlace() }) else { return }
        let timer = eventLoop.scheduleTask(in: TimeAmount(delay)) { [self] in goOn() }
        let isLate = state.withLock { state in
            state.timer = state.isCancelled ? nil : timer
            return state.isCancelled
        }
        if isLate { timer.cancel() }
    }

    /// Ends the slot; no other connection opens.
    private func finish() {
        takeSuspended()?.abandon(environment.metrics)
        let kept = state.withLock { $0.kept.all }
        EventLoopFuture.andAllComplete(kept.map(\.end), on: eventLoop).cascade(to: endPromise)
    }

    private func takeSuspended() -> SuspendedStream? { state.withLock { $0.suspended.take() } }

    /// The settings of the next connection, given what the last one has shown.
    private func target() -> SharedSettings {
        let (redirection, end) = state.withLock { ($0.redirection.take(), $0.end.take()) }
        // A server that has just failed is tried last.
        let avoided = end?.ending == .failed ? end?.server?.target : nil
        guard redirection != nil || avoided != nil else { return settings }
        var place = settings.value.redirected(redirection, by: end?.server)
        place.discovery?.avoided = avoided
        return SharedSettings(place)
    }

    /// Records the end of a connection after all has settled.
    private func settled(_ end: SessionEnd, _ suspended: SuspendedStream?) {
        let location = end.management == nil ? nil : suspended?.location
        let redirection = (end.otherHost ?? location).flatMap { settings.value.stream.redirection(to: $0) }
        state.withLock { state in
            state.current = nil
            state.end = end
            state.suspended = suspended
            state.redirection = redirection
        }
    }

    private func delay(after ending: ReconnectPolicy.Ending, _ reason: ReconnectReason) -> Duration {
        let delay = state.withLock { $0.policy.delay(after: ending, random: .random(in: 0..<1)) }
        environment.metrics.reconnects[reason].increment()
        logger.event(
            .info,
            .reconnectScheduled,
            "opening a new connection",
            [.reason: .string(reason.rawValue), .durationSeconds: .seconds(delay)]
        )
        return delay
    }
}

private struct DrainingConnections {
    private var streams = DrainingStreams()
    private var members: [Int: Connection] = [:]
    /// The number of the connection whose end is awaited.
    private var waiting: Int?

    var all: [Connection] { Array(members.values) }

    /// Adds a connection; returns the connection evicted to make room, whose end is awaited.
    mutating func add(_ connection: Connection) -> Connection? {
        members[connection.number] = connection
        guard let excess = streams.began(connection.number).flatMap({ members[$0] }) else { return nil }
        waiting = excess.number
        return excess
    }

    /// Removes a connection that has ended and settled; returns whether its end was awaited.
    mutating func remove(_ number: Int) -> Bool {
        streams.ended(number)
        members.removeValue(forKey: number)
        guard waiting == number else { return false }
        waiting = nil
        return true
    }
}
