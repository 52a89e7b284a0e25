import HTTPTypes
import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle
import Telemetry
package import Worker

/// The console: the HTTP API under `/api/v1`, and the pages over the same data.
package struct ConsoleServer: Service {
    private let host: String
    private let port: Int
    private let pool: ReadPool
    private let logger: Logger
    private let onListening: @Sendable (Int) async -> Void

    /// A console for an address; nil where the address is `off`.
    ///
    /// - Parameters:
    ///   - address: Where to listen; port 0 takes a free port, which is logged.
    ///   - pool: Where it reads.
    ///   - logger: Where the port and failures go.
    ///   - onListening: Is told the port.
    package init?(
        _ address: ListenAddress,
        pool: ReadPool,
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        guard case .tcp(let host, let port) = address else { return nil }
        self.host = host
        self.port = port
        self.pool = pool
        self.logger = logger
        self.onListening = onListening
    }

    /// The API's routes; each group of them is a file of `API/`.
    private var api: [any ConsoleRoutes] { [] }
    /// The pages' routes; each page is a file of `Pages/`.
    private var pages: [any ConsoleRoutes] { [] }

    /// Serves until shutdown.
    package func run() async throws {
        let router = Router(context: ConsoleContext.self)
        for routes in api { routes.add(to: router.group("/api/v1")) }
        for routes in pages { routes.add(to: router.group()) }
        let application = Application(
            router: router,
            configuration: ApplicationConfiguration(address: .hostname(host, port: port), serverName: nil),
            onServerRunning: { [onListening] channel in await onListening(channel.localAddress?.port ?? 0) },
            logger: logger.forLibrary
        )
        try await application.run()
    }
}
