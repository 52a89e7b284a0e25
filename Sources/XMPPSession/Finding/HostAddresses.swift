import DNS
import NIOCore
import NIOPosix
import Vocabulary

/// A host's addresses, looked up for one connection, beside the look-ups of all others.
///
/// NIO's own resolver has each event loop ask for one name after the other, and for addresses too: a name without an answer
/// would hold up every other sender.
struct HostAddresses: Resolver {
    private let found: EventLoopFuture<[SocketAddress]>

    /// Begins to look the host up.
    init(of host: String, port: Int, by resolver: AddressResolver, on eventLoop: any EventLoop) {
        found = eventLoop.makeFutureWithTask {
            try await resolver.resolve(host).map { try SocketAddress(ipAddress: $0.description, port: port) }
        }
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { addresses(of: .inet) }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { addresses(of: .inet6) }

    /// Nothing: the look-up ends by itself.
    func cancelQueries() {}

    private func addresses(of family: NIOBSDSocket.ProtocolFamily) -> EventLoopFuture<[SocketAddress]> {
        found.map { $0.filter { $0.protocol == family } }
    }
}
