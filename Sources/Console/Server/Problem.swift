package import HTTPTypes
package import Hummingbird
import NIOCore
import Vocabulary

/// An error as the API tells it: problem details (RFC 9457).
package struct Problem: Error, HTTPResponseError, Sendable, Equatable {
    /// The HTTP status.
    package var status: HTTPResponse.Status
    /// What kind of problem it is, a stable word: the last part of `type`.
    package var kind: String
    /// The kind in a few words.
    package var title: String
    /// What happened here, and how to mend it.
    package var detail: String

    package init(_ status: HTTPResponse.Status, _ kind: String, _ title: String, _ detail: String) {
        self.status = status
        self.kind = kind
        self.title = title
        self.detail = detail
    }

    /// The answer's body is `application/problem+json`.
    package func response(from request: Request, context: some RequestContext) throws -> Response {
        var json = JSONWriter()
        json.beginObject()
        json.member("type", "/problems/" + kind)
        json.member("status", status.code)
        json.member("title", title)
        json.member("detail", detail)
        json.endObject()
        json.endLine()
        var headers = HTTPFields()
        headers[.contentType] = "application/problem+json"
        headers[.cacheControl] = "no-store"
        return Response(status: status, headers: headers, body: .init(byteBuffer: ByteBuffer(bytes: json.finish())))
    }
}
