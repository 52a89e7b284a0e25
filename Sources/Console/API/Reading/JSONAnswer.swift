import HTTPTypes
import Hummingbird
import NIOCore
import Resources
import Vocabulary

enum JSONAnswer {
    /// An answer with a JSON text.
    ///
    /// - Parameters:
    ///   - body: The text, without a line end.
    ///   - headers: Further headers.
    /// - Returns: The answer, with status 200.
    static func of(_ body: [UInt8], headers: HTTPFields = [:]) -> Response {
        var headers = headers
        headers[.contentType] = "application/json"
        var buffer = ByteBuffer(bytes: body)
        buffer.writeString("\n")
        return Response(status: .ok, headers: headers, body: ResponseBody(byteBuffer: buffer))
    }

    /// An answer that is one object.
    static func object(_ members: (inout JSONWriter) -> Void) -> Response {
        var json = JSONWriter()
        json.object(members)
        return of(json.finish())
    }

    /// An answer that is a page of a resource.
    static func page<Row: ShownResource>(_ rows: [Row], next: String? = nil) -> Response {
        object { json in
            json.member("items", of: Rows(rows))
            json.member("next", next)
        }
    }
}

extension JSONWriter {
    /// Writes an object.
    mutating func object(_ members: (inout JSONWriter) -> Void) {
        beginObject()
        members(&self)
        endObject()
    }

    /// Writes a member with any value.
    mutating func member(_ name: StaticString, of value: some ShownValue) {
        self.name(name)
        value.write(to: &self)
    }
}
