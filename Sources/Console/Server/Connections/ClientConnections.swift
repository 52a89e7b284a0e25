import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

/// The console's connections: the one owner of ``ConnectionTable``, which closes what that names.
final class ClientConnections: Sendable {
    private struct State {
        var table: ConnectionTable
        var clients: [ConnectionTable.ID: ClientConnection] = [:]
    }

    private let state: Mutex<State>
    /// Whether an address is a trusted proxy's.
    private let isProxy: @Sendable (SocketAddress?) -> Bool

    init(_ limits: ConnectionTable.Limits, isProxy: @escaping @Sendable (SocketAddress?) -> Bool) {
        state = Mutex(State(table: ConnectionTable(limits)))
        self.isProxy = isProxy
    }

    /// A connection was opened.
    func open(_ channel: any Channel) -> ClientConnection {
        let client = ClientConnection(channel, self)
        let owner: ConnectionTable.Owner =
            isProxy(channel.remoteAddress) ? .proxy : .stranger(ClientAddress(channel.remoteAddress).key)
        act { state in
            state.clients[client.id] = client
            return state.table.open(client.id, owner, at: .now)
        }
        channel.closeFuture.whenComplete { [self] _ in
            client.hasGone()
            close(client.id)
        }
        return client
    }

    /// The connection of a channel; nil where it has ended.
    subscript(_ channel: any Channel) -> ClientConnection? {
        state.withLock { $0.clients[ObjectIdentifier(channel)] }
    }

    fileprivate func isStranger(_ id: ConnectionTable.ID) -> Bool { state.withLock { $0.table.isStranger(id) } }

    /// Bytes that were made and not taken, over all connections.
    var unread: Int { state.withLock(\.table.unread) }

    fileprivate func identify(_ id: ConnectionTable.ID, _ principal: Principal) -> Bool {
        var isRoom = true
        act { state in
            guard let gone = state.table.identify(id, Array(principal.name.utf8)) else {
                isRoom = false
                return []
            }
            return gone
        }
        return isRoom
    }

    fileprivate func count(_ id: ConnectionTable.ID, requests: Int) {
        state.withLock { $0.table.count(id, requests: requests, at: .now) }
    }

    fileprivate func made(_ id: ConnectionTable.ID, _ bytes: Int) { act { $0.table.made(id, bytes, at: .now) } }

    fileprivate func took(_ id: ConnectionTable.ID, _ bytes: Int) {
        state.withLock { $0.table.took(id, bytes, at: .now) }
    }

    private func close(_ id: ConnectionTable.ID) {
        state.withLock { state in
            state.table.close(id)
            state.clients[id] = nil
        }
    }

    /// Decides under the lock, and closes what has to go outside of it.
    private func act(_ decide: (inout State) -> [ConnectionTable.ID]) {
        let gone = state.withLock { state in decide(&state).compactMap { state.clients.removeValue(forKey: $0) } }
        for client in gone { client.channel.close(promise: nil) }
    }
}

/// One client's connection, as its event loop and its requests know it.
final class ClientConnection: Sendable {
    fileprivate let channel: any Channel
    private let connections: ClientConnections
    private let gone = Mutex(Gone())

    private struct Gone {
        var isGone = false
        /// Operations that end with the client.
        var watched: [Int: AsyncStream<Void>.Continuation] = [:]
        var lastNumber = 0
    }

    fileprivate init(_ channel: any Channel, _ connections: ClientConnections) {
        (self.channel, self.connections) = (channel, connections)
    }

    fileprivate var id: ConnectionTable.ID { ObjectIdentifier(channel) }

    // MARK: Its requests

    /// Who sends the request that is being answered.
    ///
    /// - Throws: A ``Problem`` with status 503 where they have too many connections, all of them in use.
    func belongs(to principal: Principal) throws(Problem) {
        guard !connections.identify(id, principal) else { return }
        throw Problem(
            .serviceUnavailable,
            "too-many-connections",
            "Too many connections",
            "you have too many requests under way: wait for some of their answers",
            headers: [.retryAfter: "2", .connection: "close"]
        )
    }

    /// Runs an operation, which is cancelled when the client goes: so is its statement.
    ///
    /// - Throws: What the operation throws.
    /// - Returns: What it returns.
    func run<T: Sendable>(_ operation: @escaping @Sendable () async throws -> T) async throws -> T {
        let (stream, continuation) = AsyncStream<Void>.makeStream()
        let number = gone.withLock { gone in
            gone.lastNumber += 1
            gone.watched[gone.lastNumber] = continuation
            if gone.isGone { continuation.finish() }
            return gone.lastNumber
        }
        defer { gone.withLock { $0.watched[number] = nil } }
        return try await withThrowingTaskGroup(of: T?.self) { group in
            group.addTask { try await operation() }
            group.addTask {
                for await _ in stream {}
                return nil
            }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
                group.cancelAll()
            }
            throw CancellationError()
        }
    }

    /// Bytes of an answer were made: they count from now on, for they may wait behind another that is not read.
    func made(_ bytes: Int) { connections.made(id, bytes) }

    // MARK: Its event loop

    /// The client has gone, or sends nothing any more.
    func hasGone() {
        let watched = gone.withLock { gone in
            gone.isGone = true
            return gone.watched
        }
        for continuation in watched.values { continuation.finish() }
    }

    /// Whether nobody has proven yet on it who they are.
    var isStranger: Bool { connections.isStranger(id) }

    /// How many requests have no answer yet.
    func count(requests: Int) { connections.count(id, requests: requests) }

    /// The client has taken bytes.
    func took(_ bytes: Int) { connections.took(id, bytes) }
}

/// Counts what is sent while it is made, and ends it with the proof of who asked.
struct CountedWriter: ResponseBodyWriter {
    private var base: any ResponseBodyWriter
    private let client: ClientConnection
    private let lasts: @Sendable () -> Bool

    init(_ base: any ResponseBodyWriter, _ client: ClientConnection, while lasts: @escaping @Sendable () -> Bool) {
        (self.base, self.client, self.lasts) = (base, client, lasts)
    }

    mutating func write(_ buffer: ByteBuffer) async throws {
        guard lasts() else { throw CancellationError() }
        client.made(buffer.readableBytes)
        try await base.write(buffer)
    }

    consuming func finish(_ trailingHeaders: HTTPFields?) async throws { try await base.finish(trailingHeaders) }
}
