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
        list(rows, next: next) { $1.write(to: &$0) }
    }

    /// An answer with a page of a list.
    ///
    /// - Parameters:
    ///   - items: The rows.
    ///   - next: Where the next page begins; nil on the last one.
    ///   - write: Writes a row's value.
    /// - Returns: The answer.
    static func list<Item>(
        _ items: [Item],
        next: String?,
        _ write: (inout JSONWriter, Item) -> Void
    ) -> Response {
        object { json in
            json.name("items")
            json.array(items, write)
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

    /// Writes an array with a value for each item.
    mutating func array<Item>(_ items: [Item], _ write: (inout JSONWriter, Item) -> Void) {
        beginArray()
        for item in items { write(&self, item) }
        endArray()
    }

    /// Writes a member with a time or null.
    mutating func member(_ name: StaticString, _ value: Timestamp?) {
        self.name(name)
        if let value { time(value) } else { null() }
    }

    /// Writes a member with a digest or null.
    mutating func member(_ name: StaticString, _ value: Digest128?) {
        self.name(name)
        if let value { uuid(value) } else { null() }
    }

    /// Writes a member with an integer or null.
    mutating func member(_ name: StaticString, _ value: (some BinaryInteger)?) {
        self.name(name)
        if let value { integer(value) } else { null() }
    }

    /// Writes a member with a number or null.
    mutating func member(_ name: StaticString, number value: Double?) {
        self.name(name)
        if let value { number(value) } else { null() }
    }

    mutating func member(_ name: StaticString, is value: Bool) {
        self.name(name)
        bool(value)
    }

    mutating func member(_ name: StaticString, list values: [String]) {
        self.name(name)
        array(values) { $0.string($1) }
    }
}
