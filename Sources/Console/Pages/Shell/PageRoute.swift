import HTTPTypes
import Hummingbird
import NIOCore

/// What a page is made from.
struct PageRequest {
    /// The parameters of its address.
    var query: PageQuery
    /// The parts of its path.
    var parameters: Parameters
    /// Who looks.
    var principal: Principal
    /// Whether they signed in on the sign-in page.
    var hasSession = false

    /// A part of the path; the router leaves it percent-encoded.
    func part(_ name: String) -> String { PageQuery.decode(parameters.get(name) ?? "", plusIsSpace: false) }

    /// Whether they may act: buttons are shown to nobody else.
    var mayAct: Bool { principal.may(.act) }
}

extension RouterGroup where Context == ConsoleContext {
    /// Adds a page.
    ///
    /// - Parameters:
    ///   - path: Its path.
    ///   - right: What a reader must be allowed to do.
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
    /// An answer that is a document; it is kept nowhere, for it shows what people may stop being allowed to see.
    init(html: HTML, status: HTTPResponse.Status = .ok) {
        var headers = HTTPFields()
        headers[.contentType] = "text/html; charset=utf-8"
        headers[.cacheControl] = "no-store"
        self.init(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: html.bytes)))
    }
}
