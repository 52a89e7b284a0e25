package import Hummingbird
package import NIOCore

package struct ConsoleContext: RequestContext {
    package var coreContext: CoreRequestContextStorage
    /// The authenticated sender; nil before the check, and for unauthenticated requests.
    package var principal: Principal?
    package let peer: SocketAddress?
    let channel: any Channel
    /// Whether the client's own connection is TLS.
    var isSecure = false
    /// The key that limits count by.
    var clientKey = ""

    package init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
        peer = channel.remoteAddress
    }

    package var maxUploadSize: Int { 64 << 10 }

    /// The sender, if they have a right; each route calls it first.
    ///
    /// - Throws: A ``Problem`` with status 401 if nobody signed in, 403 without the right.
    @discardableResult
    package func require(_ right: ConsoleRight) throws(Problem) -> Principal {
        guard let principal else { throw .unauthorized }
        guard principal.may(right) else { throw .forbidden(right, principal) }
        return principal
    }
}
