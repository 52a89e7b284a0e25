import Foundation
import HTTPTypes
import Hummingbird
import Logging
import Postgres
import Telemetry

/// Handles a request before and after its route.
struct ConsoleResponder: HTTPResponder {
    let routes: RouterResponder<ConsoleContext>
    let access: ConsoleAccess
    let connections: ClientConnections
    let settings: ConsoleSettings
    let logger: Logger

    func respond(to request: Request, context: ConsoleContext) async throws -> Response {
        try await PageShell.$environment.withValue((settings.name, settings.colour)) {
            try await answer(request, context)
        }
    }

    private func answer(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let start = ContinuousClock.now
        // HEAD is GET without the body (RFC 9110 section 9.3.2).
        let isHead = request.method == .head
        var request = request
        if isHead {
            var head = request.head
            head.method = .get
            request = Request(head: head, body: request.body)
        }
        var context = context
        context.isSecure = access.settings.isTLS
        var response: Response
        do {
            response = try await answer(request, &context, isHead: isHead)
        } catch let problem as Problem {
            response = problem.response(isAPI: Problem.isAPI(request))
        }
        if response.status == .unauthorized, request.method == .get, !Problem.isAPI(request) {
            response = toSignIn(request)
        }
        SecurityHeaders.add(to: &response, isSecure: context.isSecure)
        log(request, response, context, after: .now - start)
        guard isHead else {
            connections[context.channel]?.made(response.body.contentLength ?? 0)
            return response
        }
        let length = response.headers[.contentLength].flatMap { Int($0) }
        // Otherwise it would end with a chunk, which the client would take for the beginning of the next answer.
        if length == nil { response.headers[.connection] = "close" }
        return Response(
            status: response.status,
            headers: response.headers,
            body: ResponseBody(contentLength: length) { writer in try await writer.finish(nil) }
        )
    }

    private func answer(_ request: Request, _ context: inout ConsoleContext, isHead: Bool) async throws -> Response {
        if let response = HealthRoutes.live(request) { return response }
        // A messenger's preview must not use up the link.
        if isHead, request.uri.path.hasPrefix("/sign-in/once/") { throw Problem.notFound("ask with GET") }
        try RequestChecks.form(request, access.settings.hosts)
        let sender = try access.sender(of: request, from: context.peer)
        (context.principal, context.isSecure, context.clientKey) = (sender.principal, sender.isSecure, sender.key)
        try access.count(sender)
        try RequestChecks.forgery(request, sender)
        let client = connections[context.channel]
        if let principal = sender.principal { try client?.belongs(to: principal) }
        guard RecordingRouter.methods.contains(request.method) else {
            var head = request.head
            head.method = .trace
            return try await routes.respond(to: Request(head: head, body: request.body), context: context)
        }
        let note = LagNote()
        var response = try await ReadPool.$reader.withValue(sender.principal?.name ?? "address " + sender.key) {
            [context] in
            try await LagNote.$current.withValue(note) {
                try await respond(request, context, client, while: sender.lasts)
            }
        }
        if let lag = note.lag { response.headers[.readLag] = lag.field }
        return response
    }

    /// Answers a request.
    ///
    /// Reading ends when the client leaves, even while the answer is sent, or when its proof is withdrawn; a change is
    /// always completed.
    private func respond(
        _ request: Request,
        _ context: ConsoleContext,
        _ client: ClientConnection?,
        while lasts: @escaping @Sendable () -> Bool
    ) async throws -> Response {
        guard request.method == .get, let client else { return try await routes.respond(to: request, context: context) }
        var response = try await client.run { try await routes.respond(to: request, context: context) }
        let body = response.body
        // Streams and exports, sent while they are made.
        guard body.contentLength == nil else { return response }
        let reader = ReadPool.reader
        response.body = ResponseBody { writer in
            nonisolated(unsafe) let out = CountedWriter(writer, client, while: lasts)
            try await ReadPool.$reader.withValue(reader) {
                try await client.run { try await body.write(out) }
            }
        }
        return response
    }

    /// Redirects a person to the sign-in page, which leads back to the page they wanted.
    private func toSignIn(_ request: Request) -> Response {
        let next = SignInRoutes.safe(request.head.path)
        let characters = CharacterSet.urlPathAllowed.subtracting(CharacterSet(charactersIn: "&+=;"))
        let encoded = next.addingPercentEncoding(withAllowedCharacters: characters) ?? "/"
        return Response(status: .seeOther, headers: [.location: "/sign-in?next=\(encoded)"])
    }

    /// Logs a request by its route's pattern: the path and query may hold keys and a link's secret.
    private func log(_ request: Request, _ response: Response, _ context: ConsoleContext, after time: Duration) {
        guard logger.logLevel <= .debug else { return }
        logger.event(
            .debug,
            .consoleRequest,
            "request answered",
            [
                .method: .string(request.method.rawValue),
                .route: .string(context.coreContext.endpointPath.value ?? "-"),
                .status: .int(response.status.code), .principal: .string(context.principal?.name ?? "-"),
                .durationSeconds: .seconds(time),
            ]
        )
    }
}

/// Turns every error of a route into a ``Problem``.
struct ProblemMiddleware: RouterMiddleware {
    let logger: Logger

    func handle(
        _ request: Request,
        context: ConsoleContext,
        next: (Request, ConsoleContext) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch {
            if let problem = Problem(error) { throw problem }
            // An unforeseen failure may quote what it failed on: only its kind is logged.
            logger.event(
                .error,
                .consoleRequestFailed,
                "a request to the console failed",
                [
                    .route: .string(context.coreContext.endpointPath.value ?? "-"),
                    .error: .string("\(type(of: error))"),
                ]
            )
            throw Problem(.internal, "the log has the cause; please report it")
        }
    }
}

/// The headers of every answer.
enum SecurityHeaders {
    /// Allows nothing from elsewhere, no inline script or style, no frame around it.
    static let contentSecurityPolicy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        form-action 'self'; base-uri 'none'; frame-ancestors 'none'
        """

    static func add(to response: inout Response, isSecure: Bool) {
        response.headers[.contentSecurityPolicy] = contentSecurityPolicy
        response.headers[.xContentTypeOptions] = "nosniff"
        response.headers[.frameOptions] = "DENY"
        response.headers[.referrerPolicy] = "same-origin"
        response.headers[.crossOriginOpenerPolicy] = "same-origin"
        response.headers[.crossOriginResourcePolicy] = "same-origin"
        // RFC 6797: only over TLS; a year.
        if isSecure { response.headers[.strictTransportSecurity] = "max-age=31536000" }
        if response.headers[.cacheControl] == nil { response.headers[.cacheControl] = "no-store" }
    }
}
