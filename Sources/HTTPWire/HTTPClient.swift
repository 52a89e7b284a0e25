package import NIOCore
import NIOHTTP1
import NIOPosix
import Synchronization
package import TLSWire
package import Vocabulary

/// Sends requests to one endpoint over HTTP/1.1, over connections that later requests use again.
///
/// Follows no redirect and resolves no name twice: whoever calls says where to connect. TLS is the process's OpenSSL.
package final class HTTPClient: Sendable {
    /// Where to connect, and what the endpoint has to prove.
    package struct Target: Sendable {
        package var address: NetworkAddress
        /// Nil for plain HTTP.
        package var tls: TLSContext?

        package init(_ address: NetworkAddress, tls: TLSContext?) { (self.address, self.tls) = (address, tls) }

        fileprivate func isSame(as other: Target) -> Bool { address == other.address && tls === other.tls }
    }

    /// How long an unused connection stays open.
    private static let idleTime = Duration.seconds(30)

    private struct State {
        /// Unused connections, the last used at the end.
        var idle: [(connection: Connection, since: ContinuousClock.Instant)] = []
        var isSweeping = false
        var isShutDown = false
        /// The address that answered last, and the one that last gave no answer.
        var lastGood: NetworkAddress?
        var lastFailed: NetworkAddress?

        /// Takes out what is not to be used again: what has ended, what was idle for long, and what leads elsewhere.
        mutating func takeEnded(for target: Target? = nil) -> [Connection] {
            let now = ContinuousClock.now
            var ended: [Connection] = []
            idle.removeAll { entry in
                let leadsElsewhere = target.map { !entry.connection.target.isSame(as: $0) } ?? false
                let isEnded = leadsElsewhere || now - entry.since >= HTTPClient.idleTime || entry.connection.isClosed
                if isEnded { ended.append(entry.connection) }
                return isEnded
            }
            return ended
        }
    }

    private let endpoint: HTTPEndpoint
    private let connectTimeout: TimeAmount
    private let state = Mutex(State())

    package init(_ endpoint: HTTPEndpoint, connectTimeout: TimeAmount) {
        (self.endpoint, self.connectTimeout) = (endpoint, connectTimeout)
    }

    /// An endpoint's addresses in the order to try them: the one that answered last comes first, the one that last gave no
    /// answer last.
    package func ordered(_ addresses: [NetworkAddress]) -> [NetworkAddress] {
        let (good, failed) = state.withLock { ($0.lastGood, $0.lastFailed) }
        return addresses.filter { $0 == good } + addresses.filter { $0 != good && $0 != failed }
            + addresses.filter { $0 == failed }
    }

    /// Sends a request; once more over a new connection if a used one ends before the answer begins.
    ///
    /// A server closes idle connections, and a request that meets that end gets no answer (RFC 9112 section 9.3.1). It
    /// may have been read all the same.
    package func send(
        _ request: HTTPRequest,
        to target: Target,
        until deadline: ContinuousClock.Instant
    ) async throws(HTTPFailure) -> HTTPAnswer {
        let address = target.address
        do throws(HTTPFailure) {
            let answer = try await attempt(request, to: target, until: deadline)
            state.withLock { ($0.lastGood, $0.lastFailed) = (address, $0.lastFailed == address ? nil : $0.lastFailed) }
            return answer
        } catch {
            if case .cancelled = error { throw error }
            state.withLock { ($0.lastGood, $0.lastFailed) = (nil, address) }
            throw error
        }
    }

    private func attempt(
        _ request: HTTPRequest,
        to target: Target,
        until deadline: ContinuousClock.Instant
    ) async throws(HTTPFailure) -> HTTPAnswer {
        guard deadline > .now else { throw .timeout }
        if let connection = takeIdle(target) {
            do throws(HTTPFailure) {
                return try await send(request, over: connection, until: deadline)
            } catch {
                guard case .closed = error else { throw error }
            }
        }
        guard !state.withLock(\.isShutDown) else { throw .cancelled }
        let connection = Connection(endpoint, target, timeout: connectTimeout)
        return try await send(request, over: connection, until: deadline)
    }

    /// Closes the unused connections; those in use close after their answers.
    package func shutdown() {
        let idle = state.withLock { state in
            state.isShutDown = true
            defer { state.idle = [] }
            return state.idle
        }
        for entry in idle { entry.connection.close() }
    }

    private func send(
        _ request: HTTPRequest,
        over connection: Connection,
        until deadline: ContinuousClock.Instant
    ) async throws(HTTPFailure) -> HTTPAnswer {
        let outcome = try await connection.send(request, until: deadline)
        if outcome.isReusable { giveBack(connection) }
        return outcome.answer
    }

    /// An unused connection to a target; closes those to others, and old ones.
    private func takeIdle(_ target: Target) -> Connection? {
        let (ended, found) = state.withLock { ($0.takeEnded(for: target), $0.idle.popLast()?.connection) }
        for connection in ended { connection.close() }
        return found
    }

    private func giveBack(_ connection: Connection) {
        let (isKept, startsSweeping) = state.withLock { state -> (Bool, Bool) in
            guard !state.isShutDown else { return (false, false) }
            state.idle.append((connection, .now))
            defer { state.isSweeping = true }
            return (true, !state.isSweeping)
        }
        if !isKept { connection.close() }
        if startsSweeping { sweepLater() }
    }

    /// Closes what nobody uses for long.
    private func sweepLater() {
        MultiThreadedEventLoopGroup.singleton.next().scheduleTask(in: TimeAmount(Self.idleTime)) { [weak self] in
            guard let self else { return }
            let (ended, goesOn) = state.withLock { state in
                let ended = state.takeEnded()
                state.isSweeping = !state.idle.isEmpty
                return (ended, state.isSweeping)
            }
            for connection in ended { connection.close() }
            if goesOn { sweepLater() }
        }
    }
}

/// A connection to an endpoint, made at once.
private final class Connection: Sendable {
    let target: HTTPClient.Target
    private let loop: any EventLoop
    private let handler: NIOLoopBoundBox<HTTPExchangeHandler?>
    private let closed = Atomic(false)

    init(_ endpoint: HTTPEndpoint, _ target: HTTPClient.Target, timeout: TimeAmount) {
        self.target = target
        loop = MultiThreadedEventLoopGroup.singleton.next()
        handler = .makeEmptyBox(eventLoop: loop)
        loop.execute { self.connect(endpoint, timeout) }
    }

    var isClosed: Bool { closed.load(ordering: .relaxed) }

    private func connect(_ endpoint: HTTPEndpoint, _ timeout: TimeAmount) {
        let made = HTTPExchangeHandler(authority: endpoint.authority, isSecure: target.tls != nil) { [weak self] in
            self?.closed.store(true, ordering: .relaxed)
        }
        handler.value = made
        let (bound, tls) = (NIOLoopBound(made, eventLoop: loop), target.tls)
        let bootstrap = ClientBootstrap(group: loop)
            .connectTimeout(timeout)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(TLSHandler(context: tls)) }
                    try pipeline.addHTTPClientHandlers(leftOverBytesStrategy: .dropBytes)
                    try pipeline.addHandler(bound.value)
                }
            }
        do {
            let address = try SocketAddress(ipAddress: target.address.description, port: endpoint.port)
            bootstrap.connect(to: address).whenFailure { error in
                if case .connectTimeout = error as? ChannelError {
                    return bound.value.fail(.unreachable("\(address) does not answer"))
                }
                bound.value.fail(.unreachable("\(error)"))
            }
        } catch {
            made.fail(.unreachable("\(error)"))
        }
    }

    func send(
        _ request: HTTPRequest,
        until deadline: ContinuousClock.Instant
    ) async throws(HTTPFailure) -> HTTPExchangeHandler.Outcome {
        let promise = loop.makePromise(of: HTTPExchangeHandler.Outcome.self)
        let end = NIODeadline.now() + TimeAmount(ContinuousClock.now.duration(to: deadline))
        do {
            return try await withTaskCancellationHandler {
                loop.execute { [self] in handler.value?.start(request, until: end, on: loop, promise) }
                return try await promise.futureResult.get()
            } onCancel: {
                loop.execute { [self] in handler.value?.fail(.cancelled) }
            }
        } catch {
            throw HTTPFailure(error)
        }
    }

    func close() { loop.execute { [self] in handler.value?.fail(.closed) } }
}
