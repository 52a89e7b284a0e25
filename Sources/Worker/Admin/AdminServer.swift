import HTTPTypes
import Hummingbird
import HummingbirdCore
package import Logging
import NIOCore
import ServiceLifecycle
import Synchronization
package import Telemetry
package import UpstreamConfiguration

/// Serves `/livez`, `/readyz` and `/metrics`; what it reports on stops before it, so that a shutdown can be observed.
package struct AdminServer: Service {
    /// The connections served at once, more than a scraper and a few probes need.
    fileprivate static let connectionLimit = 32
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
        let (quiet, connections) = (logger.forLibrary, NewestConnections())
        let application = Application(
            responder: CallbackResponder<BasicRequestContext> { request, _ in response(to: request) },
            server: .http1(
                configuration: .init(
                    additionalChannelHandlers: [OpenConnection(connections)],
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
                // More than are served: each newcomer replaces one.
                availableConnectionsDelegate: MaximumAvailableConnections(2 * Self.connectionLimit, logger: quiet)
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
            var refusal = text("only GET and HEAD\n", .methodNotAllowed)
            refusal.headers[.allow] = "GET, HEAD"
            return refusal
        }
        let response = response(at: request.uri)
        // Without the body, but with its length (RFC 9110, 9.3.2).
        return request.method == .head ? response.createHeadResponse() : response
    }

    private func response(at uri: URI) -> Response {
        switch uri.path {
        case "/livez": return text("ok\n", .ok)
        case "/readyz":
            let report = readiness.report()
            let isVerbose = uri.queryParameters["verbose"] != nil || !report.isReady
            let lines = isVerbose ? report.lines + [report.isReady ? "ready" : "not ready"] : ["ok"]
            return text(lines.joined(separator: "\n") + "\n", report.isReady ? .ok : .serviceUnavailable)
        case "/metrics":
            let body = ResponseBody(byteBuffer: ByteBuffer(bytes: metrics.render()))
            return Response(status: .ok, headers: [.contentType: Metrics.contentType], body: body)
        default: return text("not found; try /livez, /readyz or /metrics\n", .notFound)
        }
    }

    private func text(_ text: String, _ status: HTTPResponse.Status) -> Response {
        let headers: HTTPFields = [.contentType: "text/plain; charset=utf-8", .cacheControl: "no-store"]
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }
}

/// The newest connections: one too many replaces the oldest, so that those who hold them open, or read no answer, keep no
/// probe out, for whose answer a worker may be restarted.
private final class NewestConnections: Sendable {
    private let channels = Mutex<[any Channel]>([])

    func open(_ channel: any Channel) {
        let oldest = channels.withLock { channels in
            channels.append(channel)
            return channels.count > AdminServer.connectionLimit ? channels.removeFirst() : nil
        }
        oldest?.close(promise: nil)
        channel.closeFuture.whenComplete { [self] _ in
            channels.withLock { $0.removeAll { $0 === channel } }
        }
    }
}

private final class OpenConnection: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let connections: NewestConnections

    init(_ connections: NewestConnections) { self.connections = connections }

    func handlerAdded(context: ChannelHandlerContext) { connections.open(context.channel) }
}
