package import Vocabulary

/// A type that can be a parameter.
package protocol SQLBindable: Sendable {
    static var postgresType: PostgresType { get }

    func append(to parameters: inout PostgresParameters)
}

/// A type with a binary form: a parameter, or a member of an array parameter.
package protocol SQLElement: SQLBindable {
    /// Writes the binary form, without type and length.
    func write(to parameters: inout PostgresParameters)

    /// Adds an array; a requirement, so that its loop is compiled for each type.
    static func append(_ elements: [Self], to parameters: inout PostgresParameters)
}

extension SQLElement {
    package func append(to parameters: inout PostgresParameters) { parameters.append(self) }

    package static func append(_ elements: [Self], to parameters: inout PostgresParameters) {
        parameters.beginArray(of: postgresType, count: elements.count)
        for element in elements { parameters.element(element) }
        parameters.endArray()
    }
}

extension Optional: SQLBindable where Wrapped: SQLBindable {
    package static var postgresType: PostgresType { Wrapped.postgresType }

    package func append(to parameters: inout PostgresParameters) {
        if let self { self.append(to: &parameters) } else { parameters.appendNull(Wrapped.postgresType) }
    }
}

extension Array: SQLBindable where Element: SQLElement {
    package static var postgresType: PostgresType { Element.postgresType.array }

    package func append(to parameters: inout PostgresParameters) { Element.append(self, to: &parameters) }
}

extension String: SQLElement {
    package static var postgresType: PostgresType { .text }

    package func write(to parameters: inout PostgresParameters) {
        var text = self
        text.withUTF8 { parameters.put(UnsafeRawBufferPointer($0)) }
    }
}

extension Int64: SQLElement {
    package static var postgresType: PostgresType { .int8 }

    package func write(to parameters: inout PostgresParameters) { parameters.put(UInt64(bitPattern: self)) }
}

extension Int: SQLElement {
    package static var postgresType: PostgresType { .int8 }

    package func write(to parameters: inout PostgresParameters) { Int64(self).write(to: &parameters) }
}

extension Float: SQLElement {
    package static var postgresType: PostgresType { .float4 }

    package func write(to parameters: inout PostgresParameters) { parameters.put(bitPattern) }
}

extension Bool: SQLElement {
    package static var postgresType: PostgresType { .bool }

    package func write(to parameters: inout PostgresParameters) {
        withUnsafeBytes(of: self ? 1 as UInt8 : 0) { parameters.put($0) }
    }
}

extension Timestamp: SQLElement {
    package static var postgresType: PostgresType { .timestamptz }

    /// PostgreSQL's extremes mean `infinity` and `-infinity`, and so do ours.
    package func write(to parameters: inout PostgresParameters) {
        let epoch = postgresEpochMicroseconds
        let sent = microseconds == .max ? .max : max(microseconds, .min + epoch) &- epoch
        parameters.put(UInt64(bitPattern: sent))
    }
}

extension Duration: SQLElement {
    package static var postgresType: PostgresType { .interval }

    /// Without days or months.
    package func write(to parameters: inout PostgresParameters) {
        parameters.put(UInt64(bitPattern: microseconds))
        parameters.put(UInt64(0))
    }
}

extension Digest128: SQLElement {
    package static var postgresType: PostgresType { .uuid }

    package func write(to parameters: inout PostgresParameters) {
        parameters.put(high)
        parameters.put(low)
    }
}

/// Bytes of a `bytea` parameter or column.
package struct Bytea: SQLElement, SQLDecodable {
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package static var postgresType: PostgresType { .bytea }

    package func write(to parameters: inout PostgresParameters) { bytes.withUnsafeBytes { parameters.put($0) } }

    package init(_ field: SQLField) throws(SQLFieldFault) {
        self.init([UInt8](try field.bytes("bytea") { $0 == PostgresType.bytea.oid }))
    }
}

/// JSON text in UTF-8: a `json` parameter, or a column of `json`, `jsonb` cast to `json`, or `text`.
package struct JSONColumn: SQLElement, SQLDecodable {
    package var utf8: [UInt8]

    /// JSON text, which the server validates.
    package init(utf8: [UInt8]) { self.utf8 = utf8 }

    package static var postgresType: PostgresType { .json }

    package func write(to parameters: inout PostgresParameters) { utf8.withUnsafeBytes { parameters.put($0) } }

    package init(_ field: SQLField) throws(SQLFieldFault) {
        self.init(utf8: [UInt8](try field.bytes("json") { $0 == PostgresType.json.oid || $0 == PostgresType.text.oid }))
    }
}
