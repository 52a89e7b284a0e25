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

    /// A path parameter, decoded.
    func part(_ name: String) -> String { PageQuery.decode(parameters.get(name) ?? "", plusIsSpace: false) }

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
                query: PageQuery(request),
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
