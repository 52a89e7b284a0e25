package import Hummingbird
package import NIOCore

/// What a request carries from the first middleware to its answer.
package struct ConsoleContext: RequestContext {
    /// What the library keeps of the request.
    package var coreContext: CoreRequestContextStorage
    /// Who asks; nil until access was checked, and for nobody in particular.
    package var principal: Principal?
    /// The other end of the connection.
    package let peer: SocketAddress?
    /// The connection that the request came on.
    let channel: any Channel
    /// Whether the client's own connection is TLS.
    var isSecure = false
    /// What limits count by.
    var clientKey = ""

    package init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
        peer = channel.remoteAddress
    }

    /// The most bytes that the library reads of a body.
    package var maxUploadSize: Int { 64 << 10 }

    /// Who asks, if they have a right; each route calls it before anything else.
    ///
    /// - Parameter right: What the route does.
    /// - Throws: A ``Problem`` with status 401 where nobody signed in, 403 without the right.
    /// - Returns: Who asks.
    @discardableResult
    package func require(_ right: ConsoleRight) throws(Problem) -> Principal {
        guard let principal else { throw .unauthorized }
        guard principal.may(right) else { throw .forbidden(right, principal) }
        return principal
    }
}

/// Routes that belong together, such as those of messages.
package protocol ConsoleRoutes: Sendable {
    /// Adds them.
    ///
    /// - Parameter router: Of `/api/v1` for the API, of `/` for pages.
    func add(to router: RouterGroup<ConsoleContext>)
}
