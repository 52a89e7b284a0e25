package import HTTPTypes
package import Hummingbird
import NIOCore
import Vocabulary

/// An error as the API reports it: problem details (RFC 9457).
///
/// Pages show the same as HTML.
package struct Problem: Error, HTTPResponseError, Sendable, Equatable {
    package var status: HTTPResponse.Status
    /// The kind as a stable word: the last part of `type`.
    package var kind: String
    package var title: String
    /// What happened, and how to fix it.
    package var detail: String
    /// Additional headers, such as `Retry-After`.
    package var headers: HTTPFields

    package init(
        _ status: HTTPResponse.Status,
        _ kind: String,
        _ title: String,
        _ detail: String,
        headers: HTTPFields = [:]
    ) {
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
        self.headers = headers
    }

    /// The answer: `application/problem+json` under `/api`, a plain page elsewhere.
    package func response(from request: Request, context: some RequestContext) throws -> Response {
        response(isAPI: Self.isAPI(request))
    }

    static func isAPI(_ request: Request) -> Bool {
        let path = request.uri.path
        return path == "/api" || path.hasPrefix("/api/")
    }

    func response(isAPI: Bool) -> Response {
        var headers = headers
        headers[.contentType] = isAPI ? "application/problem+json" : "text/html; charset=utf-8"
        headers[.cacheControl] = "no-store"
        return Response(
            status: status,
            headers: headers,
            body: .init(byteBuffer: ByteBuffer(bytes: isAPI ? json : page.bytes))
        )
    }

    package var json: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.member("type", "/problems/" + kind)
        json.member("status", status.code)
        json.member("title", title)
        json.member("detail", detail)
        json.endObject()
        json.endLine()
        return json.finish()
    }

    private var page: HTML {
        PageShell(title).card(
            """
            <h1>\(title)</h1><p>\(detail)</p>
            <p class="actions"><a class="button" href="/">To the overview</a></p>
            """
        )
    }
}
