import ConfigurationKeys
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import ServiceLifecycle
import TLSWire
import Telemetry
package import UpstreamConfiguration

/// The console: the HTTP API under `/api/v1`, and the pages over the same data.
package struct ConsoleServer: Service {
    private let host: String
    private let port: Int
    private let services: ConsoleServices
    private let access: ConsoleAccess
    private let logger: Logger
    private let limits: ConsoleLimits
    private let tls: TLSContext?
    private let onListening: @Sendable (Int) async -> Void
    let connections: ClientConnections

    /// Makes a console that listens at `address`; nil if that is `off`.
    ///
    /// Port 0 takes a free port, which is logged; `onListening` receives the port. Without a certificate it serves
    /// plain HTTP.
    ///
    /// - Throws: ``ConsoleError`` if the certificate or its key can't be used.
    package init?(
        _ address: ListenAddress,
        services: ConsoleServices,
        access: ConsoleAccess,
        certificate: ConsoleTLSConfiguration? = nil,
        limits: ConsoleLimits = ConsoleLimits(),
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws(ConsoleError) {
        guard case .tcp(let host, let port) = address else { return nil }
        (self.host, self.port, self.services, self.access) = (host, port, services, access)
        (self.limits, self.onListening, logger) = (limits, onListening, services.logger)
        tls = try certificate.map { certificate throws(ConsoleError) in try Self.tls(certificate) }
        connections = ClientConnections(limits.table) { peer in
            access.settings.proxy?.sends(from: ClientAddress(peer).address) ?? false
        }
    }

    var endpoints: [Endpoint] {
        let endpoints = ConsolePart.all.flatMap(\.endpoints)
        return endpoints + [OpenAPIDocument.endpoint(beside: endpoints, version: services.settings.version)]
    }

    /// Serves until shutdown.
    ///
    /// - Throws: ``ConsoleError`` if the port is taken.
    package func run() async throws {
        let quiet = logger.forLibrary
        let (limits, tls, connections) = (limits, tls, connections)
        let application = Application(
            responder: ConsoleResponder(
                routes: router().finish(),
                access: access,
                connections: connections,
                settings: services.settings,
                logger: logger
            ),
            server: HTTPServerBuilder { responder in
                let channel = ConsoleChannel(limits, connections, responder: responder)
                guard let tls else { return channel }
                return TLSChannel(base: channel, context: tls)
            },
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port),
                serverName: nil,
                availableConnectionsDelegate: MaximumAvailableConnections(
                    // More than the table allows: it evicts somebody for each newcomer.
                    limits.table.connections + 64,
                    logger: quiet
                )
            ),
            services: [JobRunner(services: services), TokenWatch(access: access)],
            onServerRunning: { [host, access, logger, onListening] channel in
                let port = channel.localAddress?.port ?? 0
                logger.event(.info, .consoleListening, "console listening", [.host: .string(host), .port: .int(port)])
                if let anybody = access.settings.anybody {
                    logger.event(
                        .warning,
                        .consoleOpen,
                        "every program of this machine may use the console: add console.tokens",
                        [.principal: .string(anybody.name)]
                    )
                }
                await onListening(port)
            },
            logger: quiet
        )
        do {
            try await application.run()
        } catch {
            logger.event(
                .error,
                .consoleFailed,
                "cannot serve the console; if another process uses the port, change console.listen",
                [.host: .string(host), .port: .int(port), .error: .string("\(error)")]
            )
            throw ConsoleError("cannot listen on \(host):\(port): \(error); set console.listen to a free address")
        }
    }

    func router() -> RecordingRouter {
        let router = RecordingRouter()
        _ = router.add(middleware: ProblemMiddleware(logger: logger))
        for endpoint in endpoints { endpoint.add(to: router.group("/api/v1"), services) }
        for part in ConsolePart.all {
            for page in part.pages { page.add(to: router.group(), services, part.section) }
        }
        HealthRoutes(services: services).add(to: router.group())
        SignInRoutes(access: access).add(to: router.group())
        PageAssets.add(to: router.group())
        return router
    }

    /// TLS 1.2 or 1.3 with the configured certificate.
    static func tls(_ files: ConsoleTLSConfiguration) throws(ConsoleError) -> TLSContext {
        let certificate = PEMSource.file(files.certificateFile)
        let identity = TLSIdentity(certificateChain: certificate, privateKey: .file(files.keyFile.path))
        var configuration = TLSServerConfiguration(identity)
        configuration.needsForwardSecrecy = true
        do throws(TLSError) {
            return try TLSContext.server(configuration)
        } catch {
            throw ConsoleError("console.tls: the certificate and its key cannot be used: \(error.message)")
        }
    }
}

/// An error that prevents the console from serving.
package struct ConsoleError: Error, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}
