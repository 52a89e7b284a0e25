import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

/// The console's connections; owns the ``ConnectionTable``, and closes what that decides.
final class ClientConnections: Sendable {
    fileprivate struct State {
        var table: ConnectionTable
        var clients: [ConnectionTable.ID: ClientConnection] = [:]
    }

    fileprivate let state: Mutex<State>
    private let isProxy: @Sendable (SocketAddress?) -> Bool

    init(_ limits: ConnectionTable.Limits, isProxy: @escaping @Sendable (SocketAddress?) -> Bool) {
        state = Mutex(State(table: ConnectionTable(limits)))
        self.isProxy = isProxy
    }

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
            state.withLock { state in
                state.table.close(client.id)
                state.clients[client.id] = nil
            }
        }
        return client
    }

    /// The connection of a channel; nil if it has ended.
    subscript(_ channel: any Channel) -> ClientConnection? {
        state.withLock { $0.clients[ObjectIdentifier(channel)] }
    }

    /// Bytes made and not yet taken, over all connections.
    var unread: Int { state.withLock(\.table.unread) }

    /// Decides under the lock, and closes outside of it.
    fileprivate func act(_ decide: (inout State) -> [ConnectionTable.ID]) {
        let gone = state.withLock { state in decide(&state).compactMap { state.clients.removeValue(forKey: $0) } }
        for client in gone { client.channel.close(promise: nil) }
    }
}

/// One client's connection, shared by its event loop and its requests.
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

    /// Assigns the connection to whoever sends the current request.
    func belongs(to principal: Principal) throws(Problem) {
        var isRoom = true
        connections.act { state in
            let evicted = state.table.identify(id, Array(principal.name.utf8))
            isRoom = evicted != nil
            return evicted ?? []
        }
        guard !isRoom else { return }
        let fix = "you have too many requests under way: wait for some of their answers"
        throw Problem(.tooManyConnections, fix, headers: [.connection: "close"])
    }

    /// Runs an operation and cancels it, with its statement, when the client leaves.
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

    /// Counts bytes of an answer as soon as they are made: they may wait behind another answer that is not read.
    func made(_ bytes: Int) { connections.act { $0.table.made(id, bytes, at: .now) } }

    /// Ends the connection's operations: the client has gone, or sends nothing more.
    func hasGone() {
        let watched = gone.withLock { gone in
            gone.isGone = true
            return gone.watched
        }
        for continuation in watched.values { continuation.finish() }
    }

    /// Whether nobody has authenticated on it yet.
    var isStranger: Bool { connections.state.withLock { $0.table.isStranger(id) } }

    func count(requests: Int) {
        connections.state.withLock { $0.table.count(id, requests: requests, at: .now) }
    }

    func took(_ bytes: Int) { connections.state.withLock { $0.table.took(id, bytes, at: .now) } }
}

/// A writer that counts streamed bytes, and ends the answer when the sender's proof is withdrawn.
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
