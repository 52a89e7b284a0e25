import HTTPTypes
import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle
package import Telemetry
package import UpstreamConfiguration

/// Serves `/livez`, `/readyz` and `/metrics`; what it reports on stops before it, so that a shutdown can be observed.
package struct AdminServer: Service {
    /// The connections served at once, more than a scraper and a few probes need; others wait in the kernel's queue.
    private static let connectionLimit = 32
    private static let headLimit = 8 << 10

    private let host: String
    private let port: Int
    private let metrics: Metrics
    private let readiness: Readiness
    private let logger: Logger
    private let onListening: @Sendable (Int) async -> Void

    /// Makes a server for an address; nil if the address is `off`.
    ///
    /// Port 0 takes a free port, which is logged and passed to `onListening`.
    package init?(
        _ address: ListenAddress,
        metrics: Metrics,
        readiness: Readiness,
        logger: Logger,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) {
        guard case .tcp(let host, let port) = address else { return nil }
        self.host = host
        self.port = port
        self.metrics = metrics
        self.readiness = readiness
        self.logger = logger
        self.onListening = onListening
    }

    package func run() async throws {
        // The library would log the same events as we do.
        let quiet = logger.forLibrary
        let application = Application(
            responder: CallbackResponder<BasicRequestContext> { request, _ in response(to: request) },
            server: .http1(
                configuration: .init(
                    idleTimeout: .seconds(60),
                    httpDecoderConfiguration: .init(
                        maxHeaderFieldSize: Self.headLimit,
                        maxHeaderListSize: Self.headLimit,
                        maxHeaderFieldCount: 100
                    )
                )
            ),
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port),
                serverName: nil,
                availableConnectionsDelegate: MaximumAvailableConnections(Self.connectionLimit, logger: quiet)
            ),
            onServerRunning: { [host, logger, onListening] channel in
                let port = channel.localAddress?.port ?? 0
                logger.event(
                    .info,
                    .adminListening,
                    "admin endpoints listening",
                    [.host: .string(host), .port: .int(port)]
                )
                await onListening(port)
            },
            logger: quiet
        )
        do {
            try await application.run()
        } catch {
            logger.event(
                .error,
                .adminFailed,
                "cannot serve the admin endpoints; if another process uses the port, change admin.listen",
                [.host: .string(host), .port: .int(port), .error: .string("\(error)")]
            )
            throw WorkerError.failed(
                "cannot serve the admin endpoints on \(host):\(port): \(error); set admin.listen to a free address or to off"
            )
        }
    }

    private func response(to request: Request) -> Response {
        guard request.method == .get || request.method == .head else {
            return plain("only GET and HEAD\n", .methodNotAllowed, [.allow: "GET, HEAD"], isHead: false)
        }
        let isHead = request.method == .head
        switch request.uri.path {
        case "/livez": return plain("ok\n", .ok, isHead: isHead)
        case "/readyz":
            let report = readiness.report()
            let isVerbose = request.uri.queryParameters["verbose"] != nil || !report.isReady
            let lines = isVerbose ? report.lines + [report.isReady ? "ready" : "not ready"] : ["ok"]
            let text = lines.joined(separator: "\n") + "\n"
            return plain(text, report.isReady ? .ok : .serviceUnavailable, isHead: isHead)
        case "/metrics":
            return response(metrics.render(), .ok, [.contentType: Metrics.contentType], isHead: isHead)
        default:
            return plain("not found; try /livez, /readyz or /metrics\n", .notFound, isHead: isHead)
        }
    }

    private func plain(
        _ text: String,
        _ status: HTTPResponse.Status,
        _ headers: HTTPFields = [:],
        isHead: Bool
    ) -> Response {
        var headers = headers
        headers[.contentType] = "text/plain; charset=utf-8"
        headers[.cacheControl] = "no-store"
        return response(Array(text.utf8), status, headers, isHead: isHead)
    }

    /// A response; for HEAD without its body (RFC 9110, 9.3.2).
    private func response(
        _ body: [UInt8],
        _ status: HTTPResponse.Status,
        _ headers: HTTPFields,
        isHead: Bool
    ) -> Response {
        guard !isHead else {
            return Response(
                status: status,
                headers: headers,
                body: ResponseBody(contentLength: body.count) { writer in try await writer.finish(nil) }
            )
        }
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body)))
    }
}
