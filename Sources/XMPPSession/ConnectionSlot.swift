import Logging
import NIOCore
import Synchronization
import Telemetry
import Vocabulary
import XMPP

/// Keeps one connection open, beside those that drain; not a task, which would take 2.6 KB while it waits.
final class ConnectionSlot: Sendable {
    private let settings: SharedSettings
    /// Runs its connections; chosen once for each slot, so that they spread over the event loops.
    private let eventLoop: any EventLoop
    private let environment: Connection.Environment
    private let gate: OpeningGate
    /// Reads the offline store before a connection; nil if none is to be read.
    private let retrieval: OfflineRetrieval?
    private let logger: Logger
    private let state = Mutex(State())
    private let endPromise: EventLoopPromise<Void>

    private typealias Last = (end: SessionEnd, suspended: SuspendedStream?)

    private struct State {
        /// Whether every connection is to end.
        var isCancelled = false
        var current: Connection?
        var kept = DrainingStreams<Connection>()
        var policy = ReconnectPolicy()
        /// The end of the last connection, with its stream to resume; nil if it drains.
        var last: Last?
        var lostFetches = LostFetches()
        /// What to do after the awaited event.
        var next: (@Sendable () -> Void)?
        var timer: Scheduled<Void>?
    }

    /// A slot that is not open yet; ``start()`` must follow.
    init(
        settings: SharedSettings,
        on eventLoop: any EventLoop,
        environment: Connection.Environment,
        gate: OpeningGate,
        retrieval: OfflineRetrieval? = nil,
        logger: Logger
    ) {
        self.settings = settings
        self.eventLoop = eventLoop
        self.environment = environment
        self.gate = gate
        self.retrieval = retrieval
        self.logger = logger
        endPromise = eventLoop.makePromise()
    }

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

    /// Sets what to do after the next event, and returns true; if every connection is to end, does it at once.
    private func wait(_ next: @escaping @Sendable () -> Void) -> Bool {
        let isLate = state.withLock { state in
            if !state.isCancelled { state.next = next }
            return state.isCancelled
        }
        if isLate { next() }
        return !isLate
    }

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
        let last = takeLast()
        var suspended = last?.suspended
        if let lost = suspended, !lost.isHeld(now: environment.clock.monotonic()) {
            lost.abandon(environment.metrics)
            suspended = nil
        }
        let target = target(after: last)
        if suspended == nil, let retrieval, retrieval.isWanted, state.withLock({ $0.lostFetches.mayFetch() }) {
            return fetch(retrieval, target, place)
        }
        connect(target, resuming: suspended, place: place)
    }

    private func open(
        _ settings: SharedSettings,
        _ logger: Logger,
        resuming suspended: SuspendedStream? = nil,
        place: OpeningGate.Place?
    ) -> Connection {
        let connection = Connection(settings: settings, on: eventLoop, environment: environment, logger: logger)
        connection.open(resuming: suspended, place: place)
        let isLate = state.withLock { state in
            state.current = connection
            return state.isCancelled
        }
        if isLate { connection.shutDown() }
        return connection
    }

    /// Reads the offline store, then connects; a connection that is lost before is one like any other.
    private func fetch(_ retrieval: OfflineRetrieval, _ target: SharedSettings, _ place: OpeningGate.Place) {
        // It comes and goes with each connection.
        var logger = logger
        logger.logLevel = max(logger.logLevel, .notice)
        let connection = open(OfflineRetrieval.settings(target), logger, place: place)
        let lost = Mutex<Int?>(nil)
        retrieval.run(over: connection, OfflineWalk(queue: target.value.stream.serverQueue)) { removed in
            lost.withLock { $0 = removed }
        }
        connection.end.whenSuccess { [self] end in
            let isWaiting = wait { [self] in
                let isDone = state.withLock { state in
                    state.current = nil
                    guard let removed = lost.withLock({ $0 }) else {
                        state.lostFetches.done()
                        return !state.isCancelled
                    }
                    state.last = (end, nil)
                    if end.management != nil {
                        state.lostFetches.lost(removed: removed, isOffered: retrieval.isOffered)
                    }
                    return false
                }
                if isDone { return connect(target, place: nil) }
                reopen(after: end.ending, end.reason)
            }
            if isWaiting { connection.whenSettled { [self] in goOn() } }
        }
    }

    private func connect(
        _ target: SharedSettings,
        resuming suspended: SuspendedStream? = nil,
        place: OpeningGate.Place?
    ) {
        var target = target
        if retrieval?.isOffered == true {
            var settings = target.value
            settings.stream.storeIsFetched = true
            target = SharedSettings(settings)
        }
        let connection = open(target, logger, resuming: suspended, place: place)
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
            let excess = state.kept.began(connection.number, connection)
            if excess != nil, !state.isCancelled { state.next = next }
            return (excess, state.isCancelled)
        }
        connection.whenGone { [self] in
            if state.withLock({ $0.kept.ended(connection.number) }) { goOn() }
        }
        // It still has acks to write, and its closing tag.
        excess?.shutDown()
        if excess == nil || isCancelled { next() }
    }

    /// Handles the end of a connection, after its copies have settled: else every connection that a server gives up on
    /// would add a window of copies to memory in an outage of the database.
    private func ended(_ connection: Connection, _ end: SessionEnd) {
        let isWaiting = wait { [self] in
            connection.takeSuspended { [self] suspended in
                state.withLock { state in
                    state.current = nil
                    state.last = (end, suspended)
                }
                reopen(after: end.ending, end.reason)
            }
        }
        if isWaiting { connection.whenSettled { [self] in goOn() } }
    }

    /// Opens the next connection after its delay.
    private func reopen(after ending: ReconnectPolicy.Ending, _ reason: ReconnectReason) {
        guard !state.withLock({ $0.isCancelled }) else { return finish() }
        let random = environment.random.fraction()
        let now = environment.clock.monotonic()
        let delay = state.withLock { state in
            state.policy.delay(after: ending, held: state.last?.suspended?.held(now: now), random: random)
        }
        environment.metrics.reconnects[reason].increment()
        let fields: LogFields = [.reason: .string(reason.rawValue), .durationSeconds: .seconds(delay)]
        logger.event(.info, .reconnectScheduled, "opening a new connection", fields)
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
        takeLast()?.suspended?.abandon(environment.metrics)
        let kept = state.withLock { $0.kept.all }
        EventLoopFuture.andAllComplete(kept.map(\.end), on: eventLoop).cascade(to: endPromise)
    }

    private func takeLast() -> Last? { state.withLock { $0.last.take() } }

    /// The settings of the next connection, given what the last one has shown.
    private func target(after last: Last?) -> SharedSettings {
        guard let (end, suspended) = last else { return settings }
        let location = end.management == nil ? nil : suspended?.location
        let redirection = (end.otherHost ?? location).flatMap { settings.value.stream.redirection(to: $0) }
        // A server that has just failed is tried last.
        let avoided = end.ending == .failed ? end.server?.target : nil
        guard redirection != nil || avoided != nil else { return settings }
        var place = settings.value.redirected(redirection, by: end.server)
        place.discovery?.avoided = avoided
        return SharedSettings(place)
    }
}

/// The draining streams of one connection slot, at most ``limit``.
///
/// Peers that never close them would pile up windows of messages. So the oldest is closed properly, and no other stream
/// is opened until all of it has settled.
struct DrainingStreams<Stream> {
    static var limit: Int { 2 }

    /// The oldest first.
    private var members: [(number: Int, stream: Stream)] = []
    /// The number of the stream whose end is awaited.
    private var awaited: Int?

    var all: [Stream] { members.map(\.stream) }

    /// Adds a stream that has begun to drain; returns the stream to close and to wait for if there is no room.
    mutating func began(_ number: Int, _ stream: Stream) -> Stream? {
        members.append((number, stream))
        guard members.count > Self.limit, let oldest = members.first else { return nil }
        awaited = oldest.number
        return oldest.stream
    }

    /// Removes a stream that has ended and has no copies in flight; returns whether its end was awaited.
    mutating func ended(_ number: Int) -> Bool {
        members.removeAll { $0.number == number }
        guard awaited == number else { return false }
        awaited = nil
        return true
    }
}
