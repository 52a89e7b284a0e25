import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization
import Vocabulary

/// Posts bodies to a collector over HTTP/1.1.
package final class CollectorClient: Sendable {
    private static let answerLimit = 64 * 1024

    private let url: String
    private let agent: String
    private let timeout: TimeAmount
    private let headers: @Sendable () throws -> [(name: String, value: String)]
    private let configuration: HTTPClient.Configuration
    /// Made for the first request, since a client that exists must be shut down.
    private let client = Mutex<HTTPClient?>(nil)

    /// A client that does not connect yet; `/v1/traces` is appended to the collector's base URL, as in OTLP.
    ///
    /// `caFile` replaces the system's authorities. `timeout` bounds the wait for the answer's start and for each part.
    /// `headers` are read for each request, so that a rotation needs no restart.
    package init(
        endpoint: String,
        caFile: String?,
        version: String,
        timeout: Duration = .seconds(10),
        headers: @escaping @Sendable () throws -> [(name: String, value: String)]
    ) throws(CollectorFailure) {
        url = (endpoint.hasSuffix("/") ? String(endpoint.dropLast()) : endpoint) + "/v1/traces"
        agent = "OTel-OTLP-Exporter-Swift/\(version) upstream-worker"
        self.timeout = TimeAmount(timeout)
        self.headers = headers
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: try Self.trust(caFile),
            redirectConfiguration: .disallow,
            timeout: .init(connect: .seconds(5), read: TimeAmount(timeout)),
            decompression: .disabled
        )
        configuration.httpVersion = .http1Only
        configuration.connectionPool.retryConnectionEstablishment = false
        // Tracing the export of spans would never end.
        configuration.tracing.tracer = nil
        self.configuration = configuration
    }

    private var connected: HTTPClient {
        client.withLock { client in
            let made = client ?? HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            client = made
            return made
        }
    }

    private static func trust(_ caFile: String?) throws(CollectorFailure) -> TLSConfiguration {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        guard let caFile else { return configuration }
        guard let certificates = try? NIOSSLCertificate.fromPEMFile(caFile), !certificates.isEmpty else {
            throw CollectorFailure("'\(caFile)' holds no certificates in PEM form")
        }
        configuration.trustRoots = .certificates(certificates)
        return configuration
    }

    /// Posts a body, and returns the answer whatever its status; throws ``CollectorFailure`` if there is none.
    package func post(_ body: [UInt8]) async throws -> CollectorAnswer {
        var request = HTTPClientRequest(url: url)
        request.method = .POST
        request.headers = ["content-type": "application/x-protobuf", "user-agent": agent]
        do {
            for (name, value) in try headers() { request.headers.replaceOrAdd(name: name, value: value) }
        } catch {
            throw CollectorFailure("cannot read tracing.headers_file")
        }
        request.body = .bytes(body)
        do {
            let response = try await connected.execute(request, timeout: timeout)
            // The status counts even if the body fails.
            let answer = try? await response.body.collect(upTo: Self.answerLimit)
            let wait = RetryAfter.wait(
                response.headers.first(name: "retry-after"),
                date: response.headers.first(name: "date"),
                now: Timestamp.now.microseconds / 1_000_000
            )
            return CollectorAnswer(
                status: Int(response.status.code),
                retryAfter: wait,
                body: answer.map { Array($0.readableBytesView) } ?? []
            )
        } catch {
            try Task.checkCancellation()
            throw CollectorFailure(Self.text(error))
        }
    }

    private static func text(_ error: any Error) -> String {
        switch error {
        case let error as HTTPClientError: "the request failed: \(error.shortDescription)"
        case is NIOConnectionError: "no connection: \(error)"
        case is NIOSSLError, is BoringSSLError: "TLS failed: \(error)"
        default: "the request failed: \(type(of: error))"
        }
    }

    /// Closes the connections; called when no request is under way.
    package func shutdown() async {
        let client = client.withLock { $0.take() }
        try? await client?.shutdown()
    }
}
