import AsyncHTTPClient
import ConfigurationKeys
import Dispatcher
import Glibc
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import UpstreamKit
import Vocabulary

/// Handler kind `webhook`: posts each message as a CloudEvent, signed as in Standard Webhooks.
///
/// A 2xx response accepts the message, and one of ``Options/rejectStatuses`` rejects it. 410, gone, pauses the handler.
/// Every other response, including redirects, and every connection failure is retried, not before `Retry-After`.
/// Responses of an endpoint that is down or overloaded (429, 5xx) and timeouts count for the circuit breaker; with 429
/// and 503, `Retry-After` stops all messages for that long.
final class WebhookHandler: ContainedHandler {
    /// The content modes of the CloudEvents HTTP binding.
    enum Mode: String, CaseIterable, Sendable {
        case structured
        case binary
    }

    struct Options: Sendable {
        var endpoint: WebhookEndpoint
        var timeout: Duration
        var policy: NetworkPolicy
        /// The most concurrent connections: the handler's concurrency.
        var connections: Int
        var mode = Mode.structured
        var tls = WebhookTLSFiles()
        var rejectStatuses: Set<Int> = []
    }

    /// The most bytes read of a response's body, so that the connection can be reused.
    static let bodyLimit = 64 * 1024

    /// The most bytes of a response's body that are stored with a failure.
    static let keptLimit = 1024

    private let options: Options
    private let secrets: @Sendable () throws -> [[UInt8]]
    private let headers: @Sendable () throws -> WebhookHeaders
    private let resolver: AddressResolver
    private let clients: PinnedClients

    /// A handler that posts to an endpoint.
    ///
    /// `resolver`, `headers` and `secrets` (the secret file's lines) are called for each request, so that a change
    /// needs no restart. Throws ``FileError`` if the options' files can't be used.
    init(
        options: Options,
        resolver: AddressResolver = .system,
        headers: @escaping @Sendable () throws -> WebhookHeaders = { WebhookHeaders() },
        secrets: @escaping @Sendable () throws -> [[UInt8]]
    ) throws(FileError) {
        (self.options, self.secrets, self.headers, self.resolver) = (options, secrets, headers, resolver)
        self.clients = PinnedClients(
            host: options.endpoint.host,
            connections: options.connections,
            connectTimeout: TimeAmount(min(options.timeout, .seconds(10))),
            trust: try WebhookTrust(options.tls)
        )
    }

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        let deadline = min(context.deadline, .now + options.timeout)
        let request = try makeRequest(message, context)
        let addresses = try await checkedAddresses()
        guard let loan = clients.borrow(addresses) else { throw CancellationError() }
        let response: HTTPClientResponse
        do {
            response = try await send(request, by: loan, until: deadline)
        } catch {
            await clients.giveBack(loan, isReachable: Task.isCancelled)
            try Task.checkCancellation()
            throw Self.failure(of: error, trustProblem: loan.trustProblem)
        }
        let body = await Self.start(of: response.body, until: deadline)
        await clients.giveBack(loan, isReachable: true)
        return try judge(Int(response.status.code), response.headers, body)
    }

    func shutdown() async {
        await clients.shutdown()
    }

    /// Sends the request; if a reused connection may have ended under it, once more on a new one.
    ///
    /// A server closes idle connections, and a request that meets that end gets no response (RFC 9112 §9.3.1). It may
    /// have been read all the same: receivers recognise a repeated message by its `webhook-id`.
    private func send(
        _ request: HTTPClientRequest,
        by loan: PinnedClients.Loan,
        until deadline: ContinuousClock.Instant
    ) async throws -> HTTPClientResponse {
        func execute(_ request: HTTPClientRequest, by client: HTTPClient) async throws -> HTTPClientResponse {
            let time = TimeAmount(ContinuousClock.now.duration(to: deadline))
            return try await client.execute(request, deadline: .now() + time)
        }
        do {
            let response = try await execute(request, by: loan.client)
            clients.answered(loan)
            return response
        } catch  where Self.hasClosed(error) && clients.reusesConnections(loan) {
            var request = request
            request.headers.replaceOrAdd(name: "connection", value: "close")
            return try await execute(request, by: clients.unpooled(loan))
        }
    }

    private static func hasClosed(_ error: any Error) -> Bool {
        switch error {
        case let error as HTTPClientError: error == .remoteConnectionClosed
        case let error as NIOSSLError: error == .uncleanShutdown
        case let error as IOError: [ECONNRESET, EPIPE].contains(error.errnoCode)
        case let error as ChannelError: error == .ioOnClosedChannel || error == .eof
        default: false
        }
    }

    private func makeRequest(_ message: UpstreamMessage, _ context: HandlerContext) throws -> HTTPClientRequest {
        let signer = try Self.usable("secret") { try WebhookSigner(secrets: secrets()) }
        let added = try Self.usable("headers", headers)
        let event: CloudEvent =
            switch options.mode {
            case .structured: .structured(message, context)
            case .binary: .binary(message, context)
            }
        let id = message.messageKey.description
        let timestamp = Timestamp.now.microseconds / 1_000_000
        var request = HTTPClientRequest(url: options.endpoint.url)
        request.method = .POST
        request.headers = [
            "user-agent": "upstream-worker",
            "accept-encoding": "identity",
            "webhook-id": id,
            "webhook-timestamp": String(timestamp),
            "webhook-signature": signer.signature(id: id, timestamp: timestamp, body: event.body),
        ]
        request.headers.add(contentsOf: event.headers)
        for field in added.fields { request.headers.add(name: field.name, value: field.value) }
        if let traceparent = context.traceparent {
            request.headers.replaceOrAdd(name: "traceparent", value: traceparent)
        }
        if let tracestate = context.tracestate { request.headers.replaceOrAdd(name: "tracestate", value: tracestate) }
        request.body = .bytes(event.body)
        return request
    }

    private func checkedAddresses() async throws -> [NetworkAddress] {
        do throws(WebhookRefusal) {
            return try await options.policy.addresses(of: options.endpoint, by: resolver)
        } catch {
            if error.status == .unavailable { try Task.checkCancellation() }
            throw Self.down(error.group, "\(error.cause); \(error.fix)")
        }
    }

    /// The start of a response's body, up to the limit or the deadline.
    private static func start(
        of body: HTTPClientResponse.Body,
        until deadline: ContinuousClock.Instant
    ) async -> [UInt8] {
        await withTaskGroup(of: [UInt8]?.self) { tasks in
            tasks.addTask {
                var kept: [UInt8] = []
                var count = 0
                do {
                    for try await part in body {
                        kept += part.readableBytesView.prefix(keptLimit - kept.count)
                        count += part.readableBytes
                        if count > bodyLimit { break }
                    }
                } catch {
                    // The status counts even if the body breaks off.
                    return kept
                }
                return kept
            }
            tasks.addTask {
                try? await Task.sleep(until: deadline, clock: .continuous)
                return nil
            }
            let first = await tasks.next() ?? nil
            tasks.cancelAll()
            // At the deadline: the bytes received, once the task has seen the cancellation.
            for await rest in tasks where first == nil { return rest ?? [] }
            return first ?? []
        }
    }

    private func judge(_ status: Int, _ headers: HTTPHeaders, _ body: [UInt8]) throws -> HandlerOutcome {
        if (200...299).contains(status) { return .done }
        let start = String(decoding: body, as: UTF8.self)
        let note = (300...399).contains(status) ? " (redirects are not followed)" : ""
        let failure = HandlerFailure(
            group: "webhook status \(status)",
            detail: "the endpoint answered \(status)\(note)" + (start.isEmpty ? "" : ": \(start)")
        )
        if options.rejectStatuses.contains(status) { throw HandlerVerdictError(.reject(failure)) }
        if status == 410 { throw HandlerVerdictError(.pause(failure)) }
        let wait = RetryAfter.wait(
            headers.first(name: "retry-after"),
            date: headers.first(name: "date"),
            now: Timestamp.now.microseconds / 1_000_000
        )
        switch status {
        // Both concern the whole endpoint (RFC 6585 §4, RFC 9110 §15.6.4).
        case 429, 503:
            let hold = wait.flatMap { $0 > .zero ? min($0, RetryAfter.longestHold) : nil }
            throw HandlerVerdictError(.down(after: wait, hold: hold, failure))
        case 500...: throw HandlerVerdictError(.down(after: wait, failure))
        default: throw HandlerVerdictError(.retry(after: wait, failure))
        }
    }

    private static func failure(of error: any Error, trustProblem: String?) -> HandlerVerdictError {
        // The TLS files may have caused the failure.
        let note = trustProblem.map { " (the TLS files have changed and can't be used: \($0))" } ?? ""
        return switch error {
        case let error as HTTPClientError where error == .deadlineExceeded || error == .connectTimeout:
            down("webhook timeout", "no answer in time")
        case let error as HTTPClientError:
            down("webhook \(error.shortDescription)", "the request failed: \(error.shortDescription)\(note)")
        case is NIOConnectionError: down("webhook connection failed", "no connection: \(error)\(note)")
        default: down("webhook \(type(of: error))", "the request failed: \(error)\(note)")
        }
    }

    private static func down(_ group: String, _ detail: String) -> HandlerVerdictError {
        HandlerVerdictError(.down(after: nil, HandlerFailure(group: group, detail: detail)))
    }

    /// Reads a part of the configuration; if that fails, no message is at fault.
    private static func usable<Part>(_ name: String, _ read: () throws -> Part) throws(HandlerVerdictError) -> Part {
        do {
            return try read()
        } catch {
            throw .unavailable(after: .seconds(30), "webhook \(name) can not be used", "\(error)")
        }
    }
}
