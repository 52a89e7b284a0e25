import AsyncHTTPClient
import NIOCore
import NIOPosix
import Synchronization
import Vocabulary

/// HTTP clients that each connect to one checked address.
///
/// A client that resolved the name itself could get another address than the checked one (DNS rebinding); so the
/// address is pinned, while certificate checks and the `Host` header use the name. The client is replaced when the
/// name's addresses or its TLS files change.
final class PinnedClients: Sendable {
    /// A borrowed client; give it back.
    struct Loan: Sendable {
        let address: NetworkAddress
        let client: HTTPClient
        /// Why the present TLS files can't be used, so that the client uses older ones; nil if it uses them.
        var trustProblem: String?
    }

    private struct Entry {
        var loan: Loan
        /// Connects anew for each request; for those that had to be sent again.
        var unpooled: HTTPClient?
        var generation: Int
        /// Whether a request may go out on a used connection.
        var reusesConnections = false
        var users = 0
        var isRetired = false

        var clients: [HTTPClient] { [loan.client] + (unpooled.map { [$0] } ?? []) }
    }

    private struct State {
        var entries: [Entry] = []
        var lastFailed: NetworkAddress?
        var isShutDown = false

        func index(of loan: Loan) -> Int? { entries.firstIndex { $0.loan.client === loan.client } }
    }

    private let host: String
    private let connections: Int
    private let connectTimeout: TimeAmount
    private let trust: WebhookTrust
    private let state = Mutex(State())

    init(
        host: String,
        connections: Int,
        connectTimeout: TimeAmount,
        trust: WebhookTrust
    ) {
        (self.host, self.connections, self.connectTimeout) = (host, connections, connectTimeout)
        self.trust = trust
    }

    /// Lends a client for one of these addresses: the current one if it works, else the first that did not just fail.
    ///
    /// - Returns: nil after the shutdown, and if there is no address.
    func borrow(_ addresses: [NetworkAddress]) -> Loan? {
        let trust = trust.current()
        return state.withLock { state in
            guard !state.isShutDown, let first = addresses.first else { return nil }
            let wanted = addresses.filter { $0 != state.lastFailed }
            let usable = state.entries.firstIndex { entry in
                !entry.isRetired && entry.generation == trust.generation && wanted.contains(entry.loan.address)
            }
            if let usable {
                state.entries[usable].users += 1
                state.entries[usable].loan.trustProblem = trust.problem
                return state.entries[usable].loan
            }
            for index in state.entries.indices { state.entries[index].isRetired = true }
            let address = wanted.first ?? first
            let loan = Loan(address: address, client: makeClient(address, trust), trustProblem: trust.problem)
            state.entries.append(Entry(loan: loan, generation: trust.generation, users: 1))
            return loan
        }
    }

    /// A client for the same address without connections, for requests with `Connection: close`.
    func unpooled(_ loan: Loan) -> HTTPClient {
        let trust = trust.current()
        return state.withLock { state in
            // A borrowed client is kept until it is given back.
            guard let index = state.index(of: loan) else { return loan.client }
            if let client = state.entries[index].unpooled { return client }
            let client = makeClient(loan.address, trust)
            state.entries[index].unpooled = client
            return client
        }
    }

    /// Notes that a request was answered: even one that now waits for a new connection may get its connection.
    func answered(_ loan: Loan) {
        state.withLock { state in
            if let index = state.index(of: loan) { state.entries[index].reusesConnections = true }
        }
    }

    /// Whether a request by this client may have gone out on a used connection.
    func reusesConnections(_ loan: Loan) -> Bool {
        state.withLock { state in state.index(of: loan).map { state.entries[$0].reusesConnections } ?? false }
    }

    /// Takes a client back; `isReachable` says whether it could connect to its address.
    func giveBack(_ loan: Loan, isReachable: Bool) async {
        let ended: [HTTPClient] = state.withLock { state in
            if isReachable {
                if state.lastFailed == loan.address { state.lastFailed = nil }
            } else {
                state.lastFailed = loan.address
            }
            if let index = state.index(of: loan) {
                state.entries[index].users -= 1
                if !isReachable { state.entries[index].isRetired = true }
            }
            let ended = state.entries.filter { $0.isRetired && $0.users == 0 }.flatMap(\.clients)
            state.entries.removeAll { $0.isRetired && $0.users == 0 }
            return ended
        }
        for client in ended { try? await client.shutdown() }
    }

    /// Ends all clients; called when none is lent.
    func shutdown() async {
        let clients = state.withLock { state in
            state.isShutDown = true
            defer { state.entries = [] }
            return state.entries.flatMap(\.clients)
        }
        for client in clients { try? await client.shutdown() }
    }

    private func makeClient(_ address: NetworkAddress, _ trust: WebhookTrust.Current) -> HTTPClient {
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: trust.configuration,
            redirectConfiguration: .disallow,
            timeout: .init(connect: connectTimeout),
            decompression: .disabled
        )
        configuration.httpVersion = .http1Only
        // The attempt has a span, which its request carries.
        configuration.tracing.tracer = nil
        configuration.dnsOverride = [host: address.description]
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        configuration.connectionPool.idleTimeout = .seconds(30)
        // A failed connection fails the delivery, with its cause; the retry policy decides about the next attempt.
        configuration.connectionPool.retryConnectionEstablishment = false
        let group = MultiThreadedEventLoopGroup.singleton
        return HTTPClient(eventLoopGroupProvider: .shared(group), configuration: configuration)
    }
}
