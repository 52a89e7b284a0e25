import DNS
import HTTPWire
import NIOCore
import NIOHTTP1
import TLSWire
import Vocabulary

/// Posts bodies to a collector over HTTP/1.1.
package final class CollectorClient: Sendable {
    private let endpoint: HTTPEndpoint
    private let agent: String
    private let timeout: Duration
    private let headers: @Sendable () throws -> [(name: String, value: String)]
    private let client: HTTPClient
    private let tls: TLSContext?

    /// A client that does not connect yet; `/v1/traces` is appended to the collector's base URL, as in OTLP.
    ///
    /// `caFile` replaces the system's authorities. `timeout` bounds the wait for the whole answer. `headers` are read for
    /// each request, so that a rotation needs no restart.
    package init(
        endpoint: String,
        caFile: String?,
        version: String,
        timeout: Duration = .seconds(10),
        headers: @escaping @Sendable () throws -> [(name: String, value: String)]
    ) throws(CollectorFailure) {
        let url = (endpoint.hasSuffix("/") ? String(endpoint.dropLast()) : endpoint) + "/v1/traces"
        guard let parsed = HTTPEndpoint(url) else {
            throw CollectorFailure("'\(endpoint)' is not an http or https URL")
        }
        self.endpoint = parsed
        agent = "OTel-OTLP-Exporter-Swift/\(version) upstream-worker"
        (self.timeout, self.headers) = (timeout, headers)
        client = HTTPClient(parsed, connectTimeout: .seconds(5))
        do throws(TLSError) {
            let configuration = TLSClientConfiguration(serverName: parsed.host, caFile: caFile, section: "tracing")
            tls = try parsed.isPlain ? nil : .client(configuration)
        } catch {
            throw CollectorFailure(HTTPFailure.tls(error).description)
        }
    }

    /// Posts a body, and returns the answer whatever its status; throws ``CollectorFailure`` if there is none.
    package func post(_ body: [UInt8]) async throws -> CollectorAnswer {
        var request = HTTPRequest(.POST, endpoint.target, body: body)
        request.headers = ["content-type": "application/x-protobuf", "user-agent": agent]
        do {
            for (name, value) in try headers() { request.headers.replaceOrAdd(name: name, value: value) }
        } catch {
            throw CollectorFailure("cannot read tracing.headers_file")
        }
        let answer = try await send(request, until: .now + timeout)
        let headers = answer.headers
        let wait = RetryAfter.wait(headers.first(name: "retry-after"), date: headers.first(name: "date"))
        return CollectorAnswer(status: answer.status, retryAfter: wait, body: answer.body)
    }

    /// Sends to the first of the host's addresses that can be reached.
    private func send(_ request: HTTPRequest, until deadline: ContinuousClock.Instant) async throws -> HTTPAnswer {
        var failure = "no connection"
        do {
            var addresses = endpoint.address.map { [$0] } ?? []
            if addresses.isEmpty { addresses = try await AddressResolver.system.resolve(endpoint.host) }
            for address in client.ordered(addresses) {
                do throws(HTTPFailure) {
                    return try await client.send(request, to: HTTPClient.Target(address, tls: tls), until: deadline)
                } catch {
                    failure = error.description
                    guard case .unreachable = error else { break }
                }
            }
        } catch {
            failure =
                "\(endpoint.host) does not resolve: \((error as? ResolveError)?.reason ?? "the look-up was given up")"
        }
        try Task.checkCancellation()
        throw CollectorFailure(failure)
    }

    /// Closes the connections.
    package func shutdown() async { client.shutdown() }
}
