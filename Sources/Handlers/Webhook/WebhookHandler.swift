import ConfigurationKeys
import DNS
import Dispatcher
import HTTPWire
import NIOCore
import NIOHTTP1
import UpstreamKit
import Vocabulary

/// Handler kind `webhook`: posts each message as a CloudEvent, signed as in Standard Webhooks.
///
/// A 2xx response accepts the message, and one of ``Options/rejectStatuses`` rejects it. 410, gone, pauses the handler.
/// Every other response, including redirects, and every connection failure is retried, not before `Retry-After`.
/// Responses of an endpoint that is down or overloaded (429, 5xx) and timeouts count for the circuit breaker; with 429
/// and 503, `Retry-After` stops all messages for that long.
final class WebhookHandler: ContainedHandler, BatchHandler {
    /// The content modes of the CloudEvents HTTP binding.
    enum Mode: String, CaseIterable, Sendable {
        case structured
        case binary
    }

    struct Options: Sendable, Equatable {
        var timeout = Duration.zero
        /// Where private addresses, loopback and plain http are allowed.
        var policy = NetworkPolicy()
        var mode = Mode.structured
        var tls = WebhookTLSFiles()
        var rejectStatuses: Set<Int> = []
        /// The most messages of a request.
        var batch = 1
    }

    /// The most bytes of a response's body that are stored with a failure.
    static let keptLimit = 1024

    private let endpoint: HTTPEndpoint
    let options: Options
    private let secrets: @Sendable () throws -> [[UInt8]]
    private let headers: @Sendable () throws -> WebhookHeaders
    private let resolver: AddressResolver
    private let client: HTTPClient
    private let trust: WebhookTrust

    /// A handler that posts to an endpoint.
    ///
    /// `resolver`, `headers` and `secrets` (the secret file's lines) are called for each request, so that a change
    /// needs no restart. Throws ``FileError`` if the options' files can't be used.
    init(
        _ endpoint: HTTPEndpoint,
        _ options: Options,
        resolver: AddressResolver = .system,
        headers: @escaping @Sendable () throws -> WebhookHeaders = { WebhookHeaders() },
        secrets: @escaping @Sendable () throws -> [[UInt8]]
    ) throws(FileError) {
        (self.endpoint, self.options, self.resolver) = (endpoint, options, resolver)
        (self.secrets, self.headers) = (secrets, headers)
        trust = try WebhookTrust(options.tls, host: endpoint.host)
        client = HTTPClient(endpoint, connectTimeout: TimeAmount(min(options.timeout, .seconds(10))))
    }

    var batch: Int { options.batch }

    func handle(_ message: UpstreamMessage, context: HandlerContext) async throws -> HandlerOutcome {
        let event: CloudEvent =
            switch options.mode {
            case .structured: .structured(message, context)
            case .binary: .binary(message, context)
            }
        var request = try makeRequest(event, id: message.messageKey.description)
        if let traceparent = context.traceparent {
            request.headers.replaceOrAdd(name: "traceparent", value: traceparent)
        }
        if let tracestate = context.tracestate { request.headers.replaceOrAdd(name: "tracestate", value: tracestate) }
        let answer = try await send(request, until: min(context.deadline, .now + options.timeout))
        return try judge(answer)
    }

    /// Posts a request to an address that it may go to.
    func send(_ request: HTTPRequest, until deadline: ContinuousClock.Instant) async throws -> HTTPAnswer {
        let address = try await address()
        let trust = trust.current()
        // A client that looked the name up again could get another address than the checked one (DNS rebinding).
        let target = HTTPClient.Target(address, tls: endpoint.isPlain ? nil : trust.context)
        do throws(HTTPFailure) {
            // Receivers recognise a message that comes again by its `webhook-id`.
            return try await client.send(request, to: target, until: deadline)
        } catch {
            try Task.checkCancellation()
            // The TLS files may have caused the failure.
            let note = trust.problem.map { " (the TLS files have changed and can't be used: \($0))" } ?? ""
            throw Self.down("webhook \(error.name)", error.description + note)
        }
    }

    func shutdown() async { client.shutdown() }

    /// A signed request; `id` is the same whenever the same is sent.
    func makeRequest(_ event: CloudEvent, id: String) throws -> HTTPRequest {
        let signer = try Self.usable("secret") { try WebhookSigner(secrets: secrets()) }
        let added = try Self.usable("headers", headers)
        let timestamp = Timestamp.now.microseconds / 1_000_000
        var request = HTTPRequest(.POST, endpoint.target, body: event.body)
        request.keptLimit = Self.keptLimit
        request.headers = [
            "user-agent": "upstream-worker",
            "accept-encoding": "identity",
            "webhook-id": id,
            "webhook-timestamp": String(timestamp),
            "webhook-signature": signer.signature(id: id, timestamp: timestamp, body: event.body),
        ]
        request.headers.add(contentsOf: event.headers)
        for field in added.fields { request.headers.add(name: field.name, value: field.value) }
        return request
    }

    /// The address that works, or else the first that has not just failed; all were checked.
    private func address() async throws -> NetworkAddress {
        do throws(WebhookRefusal) {
            let found = try await options.policy.addresses(of: endpoint, by: resolver)
            // There is at least one: the resolver throws otherwise.
            return client.ordered(found)[0]
        } catch {
            if error.status == .unavailable { try Task.checkCancellation() }
            throw Self.down(error.group, "\(error.cause); \(error.fix)")
        }
    }

    /// The outcome of a request's messages by its status.
    func judge(_ answer: HTTPAnswer) throws -> HandlerOutcome {
        let (status, headers) = (answer.status, answer.headers)
        if (200...299).contains(status) { return .done }
        let start = String(decoding: answer.body.prefix(Self.keptLimit), as: UTF8.self)
        let note = (300...399).contains(status) ? " (redirects are not followed)" : ""
        let failure = HandlerFailure(
            group: "webhook status \(status)",
            detail: "the endpoint answered \(status)\(note)" + (start.isEmpty ? "" : ": \(start)")
        )
        if options.rejectStatuses.contains(status) { throw HandlerVerdictError(.reject(failure)) }
        if status == 410 { throw HandlerVerdictError(.pause(failure)) }
        let wait = RetryAfter.wait(headers.first(name: "retry-after"), date: headers.first(name: "date"))
        switch status {
        // Both concern the whole endpoint (RFC 6585 §4, RFC 9110 §15.6.4).
        case 429, 503:
            let hold = wait.flatMap { $0 > .zero ? min($0, RetryAfter.longestHold) : nil }
            throw HandlerVerdictError(.down(after: wait, hold: hold, failure))
        case 500...: throw HandlerVerdictError(.down(after: wait, failure))
        default: throw HandlerVerdictError(.retry(after: wait, failure))
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
