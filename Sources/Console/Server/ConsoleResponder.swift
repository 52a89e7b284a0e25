import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Telemetry

/// Everything that happens to a request before and after its route.
struct ConsoleResponder: HTTPResponder {
    let routes: RouterResponder<ConsoleContext>
    let access: ConsoleAccess

    func respond(to request: Request, context: ConsoleContext) async throws -> Response {
        // HEAD is GET without the body (RFC 9110 section 9.3.2).
        let isHead = request.method == .head
        var request = request
        if isHead {
            var head = request.head
            head.method = .get
            request = Request(head: head, body: request.body)
        }
        var response: Response
        do {
            response = try await answer(request, context)
        } catch let problem as Problem {
            response = problem.response(isAPI: Problem.isAPI(request))
        }
        SecurityHeaders.add(to: &response)
        guard isHead else { return response }
        let length = response.headers[.contentLength].flatMap { Int($0) }
        return Response(
            status: response.status,
            headers: response.headers,
            body: ResponseBody(contentLength: length) { writer in try await writer.finish(nil) }
        )
    }

    private func answer(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        var context = context
        context.principal = access.principal(of: request)
        return try await routes.respond(to: request, context: context)
    }
}

/// Makes every error of a route a ``Problem``.
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
            throw Problem(
                .internalServerError,
                "internal",
                "The console failed",
                "the log has the cause; please report it"
            )
        }
    }
}

/// The headers of every answer.
enum SecurityHeaders {
    /// Nothing from elsewhere, no script or style within a page, no frame around it.
    static let contentSecurityPolicy = """
        default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
        form-action 'self'; base-uri 'none'; frame-ancestors 'none'
        """

    static func add(to response: inout Response) {
        response.headers[.contentSecurityPolicy] = contentSecurityPolicy
        response.headers[.xContentTypeOptions] = "nosniff"
        if response.headers[.cacheControl] == nil { response.headers[.cacheControl] = "no-store" }
    }
}
