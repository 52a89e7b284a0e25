import HTTPTypes
import Hummingbird
import NIOCore

struct PageRequest {
    var query: PageQuery
    var parameters: Parameters
    /// The reader.
    var principal: Principal
    /// Whether they signed in on the sign-in page.
    var hasSession = false

    /// A part of the path; the router leaves it percent-encoded.
    func part(_ name: String) -> String { parameters.get(name).flatMap { FormText.decode($0[...]) } ?? "" }

    /// Whether the reader may act; otherwise no buttons are shown.
    var mayAct: Bool { principal.may(.act) }
}

extension RouterGroup where Context == ConsoleContext {
    /// Adds a page.
    ///
    /// - Parameters:
    ///   - path: Its path.
    ///   - right: The right it requires.
    ///   - make: Makes the document.
    func page(
        _ path: RouterPath,
        _ right: ConsoleRight = .read,
        _ make: @escaping @Sendable (PageRequest) async throws -> HTML
    ) {
        get(path) { request, context in
            let principal = try context.require(right)
            let page = PageRequest(
                query: try PageQuery(request.uri.query ?? ""),
                parameters: context.parameters,
                principal: principal,
                hasSession: SessionCookie.id(in: request, isSecure: context.isSecure) != nil
            )
            return Response(html: try await make(page))
        }
    }
}

extension Response {
    /// An answer with a document; not cached, since people may lose the right to see it.
    init(html: HTML, status: HTTPResponse.Status = .ok) {
        var headers = HTTPFields()
        headers[.contentType] = "text/html; charset=utf-8"
        headers[.cacheControl] = "no-store"
        self.init(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: html.bytes)))
    }
}
