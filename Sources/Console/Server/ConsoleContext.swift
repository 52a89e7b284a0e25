package import Hummingbird
package import NIOCore

/// What a request carries from the first middleware to its answer.
package struct ConsoleContext: RequestContext {
    /// What the library keeps of the request.
    package var coreContext: CoreRequestContextStorage
    /// Who asks; nil until access was checked.
    package var principal: Principal?
    /// The other end of the connection.
    package let peer: SocketAddress?

    package init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        peer = source.channel.remoteAddress
    }
}

/// Routes that belong together, such as those of messages.
package protocol ConsoleRoutes: Sendable {
    /// Adds them.
    ///
    /// - Parameter router: Of `/api/v1` for the API, of `/` for pages.
    func add(to router: RouterGroup<ConsoleContext>)
}
