import HTTPTypes
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle
import Telemetry
package import Worker

/// The console: the HTTP API under `/api/v1`, and the pages over the same data.
package struct ConsoleServer: Service {
    private let host: String
    private let port: Int
    private let services: ConsoleServices
    private let access: ConsoleAccess
    private let logger: Logger
    private let onListening: @Sendable (Int) async -> Void

    /// A console for an address; nil where the address is `off`.
    ///
    /// - Parameters:
    ///   - address: Where to listen; port 0 takes a free port, which is logged.
    ///   - services: What routes work with.
    ///   - access: Who is let in.
    ///   - onListening: Is told the port.
    package init?(
        _ address: ListenAddress,
        services: ConsoleServices,
        access: ConsoleAccess,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        guard case .tcp(let host, let port) = address else { return nil }
        self.host = host
        self.port = port
        self.services = services
        self.access = access
        logger = services.logger
        self.onListening = onListening
    }

    /// The API's routes, by name; each group of them is a file of `API/`.
    private var api: [any ConsoleRoutes] {
        [
            WhoAmIRoutes()
        ]
    }

    /// The pages' routes, by name; each page is a file of `Pages/`.
    private var pages: [any ConsoleRoutes] {
        []
    }

    /// Serves until shutdown.
    package func run() async throws {
        let application = Application(
            responder: responder(),
            configuration: ApplicationConfiguration(address: .hostname(host, port: port), serverName: nil),
            onServerRunning: { [onListening] channel in await onListening(channel.localAddress?.port ?? 0) },
            logger: logger.forLibrary
        )
        try await application.run()
    }

    private func responder() -> ConsoleResponder {
        let router = RecordingRouter()
        _ = router.add(middleware: ProblemMiddleware(logger: logger))
        for routes in api { routes.add(to: router.group("/api/v1")) }
        for routes in pages { routes.add(to: router.group()) }
        return ConsoleResponder(routes: router.finish(), access: access)
    }
}
