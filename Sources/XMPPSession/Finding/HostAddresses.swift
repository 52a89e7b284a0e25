import DNS
import NIOCore
import NIOPosix
import Vocabulary

/// A host's addresses, looked up for one connection, beside the look-ups of all others.
///
/// NIO's own resolver has each event loop ask for one name after the other, and for addresses too: a name without an answer
/// would hold up every other sender.
struct HostAddresses: Resolver {
    private let found: EventLoopPromise<[SocketAddress]>

    /// Whether `found` has its result: an answer after the connection's time is up may find the event loop shut down.
    private let isFound = OnceFlag()

    /// Begins to look the host up.
    init(of host: String, port: Int, by resolver: AddressResolver, on eventLoop: any EventLoop) {
        let found = eventLoop.makePromise(of: [SocketAddress].self)
        self.found = found
        Task { [isFound] in
            let result: Result<[SocketAddress], any Error>
            do {
                result = .success(
                    try await resolver.resolve(host).map { try SocketAddress(ipAddress: $0.description, port: port) }
                )
            } catch {
                result = .failure(error)
            }
            if isFound.isFirst() { found.completeWith(result) }
        }
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { addresses(of: .inet) }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { addresses(of: .inet6) }

    /// Waits no longer: the look-up itself ends unheard.
    func cancelQueries() {
        if isFound.isFirst() { found.fail(CancellationError()) }
    }

    private func addresses(of family: NIOBSDSocket.ProtocolFamily) -> EventLoopFuture<[SocketAddress]> {
        found.futureResult.map { $0.filter { $0.protocol == family } }
    }
}
