import HTTPTypes
import Hummingbird
import NIOCore
import Resources

extension Response {
    /// A whole answer of some type.
    init(_ body: ByteBuffer, type: String, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]) {
        var headers = headers
        headers[.contentType] = type
        self.init(status: status, headers: headers, body: ResponseBody(byteBuffer: body))
    }

    /// A document, compressed if it is long and may be; not cached, since people may lose the right to see it.
    init(html: HTML, status: HTTPResponse.Status = .ok, gzip: Bool = false) {
        var (bytes, headers) = (html.bytes, [.cacheControl: "no-store"] as HTTPFields)
        if gzip, bytes.count > Gzip.least {
            bytes = Gzip.compress(bytes)
            headers[.contentEncoding] = "gzip"
        }
        self.init(ByteBuffer(bytes: bytes), type: "text/html; charset=utf-8", status: status, headers: headers)
    }

    /// A JSON text, to which a line end is added.
    static func json(_ text: [UInt8], headers: HTTPFields = [:]) -> Response {
        var body = ByteBuffer(bytes: text)
        body.writeString("\n")
        return Response(body, type: "application/json", headers: headers)
    }

    /// Server-Sent Events (WHATWG HTML, section 9.2), sent while they are made.
    static func events(_ body: ResponseBody) -> Response {
        Response(status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
    }

    static func page<Row: ShownResource>(_ rows: [Row], next: String? = nil) -> Response {
        .json((["items": rows, "next": next] as JSONObject).json())
    }
}
