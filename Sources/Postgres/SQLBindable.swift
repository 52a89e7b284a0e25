package import Vocabulary

/// A type that can be a parameter.
package protocol SQLBindable: Sendable {
    static var postgresType: PostgresType { get }

    func append(to parameters: inout PostgresParameters)
}

/// A type that can be a member of an array parameter.
package protocol SQLElement: SQLBindable {
    func appendElement(to parameters: inout PostgresParameters)

    /// Adds an array; a requirement, so that its loop is compiled for each type.
    static func append(_ elements: [Self], to parameters: inout PostgresParameters)
}

extension SQLElement {
    package static func append(_ elements: [Self], to parameters: inout PostgresParameters) {
        parameters.beginArray(of: postgresType, count: elements.count)
        for element in elements { element.appendElement(to: &parameters) }
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

    package func append(to parameters: inout PostgresParameters) { parameters.append(self) }

    package func appendElement(to parameters: inout PostgresParameters) {
        var text = self
        text.withUTF8 { parameters.element(UnsafeRawBufferPointer($0)) }
    }
}

extension Int64: SQLElement {
    package static var postgresType: PostgresType { .int8 }

    package func append(to parameters: inout PostgresParameters) { parameters.append(self) }

    package func appendElement(to parameters: inout PostgresParameters) {
        withUnsafeBytes(of: bigEndian) { parameters.element($0) }
    }
}

extension Int: SQLElement {
    package static var postgresType: PostgresType { .int8 }

    package func append(to parameters: inout PostgresParameters) { parameters.append(Int64(self)) }

    package func appendElement(to parameters: inout PostgresParameters) {
        Int64(self).appendElement(to: &parameters)
    }
}

extension Bool: SQLElement {
    package static var postgresType: PostgresType { .bool }

    package func append(to parameters: inout PostgresParameters) { parameters.append(self) }

    package func appendElement(to parameters: inout PostgresParameters) {
        withUnsafeBytes(of: self ? 1 as UInt8 : 0) { parameters.element($0) }
    }
}

extension Timestamp: SQLElement {
    package static var postgresType: PostgresType { .timestamptz }

    package func append(to parameters: inout PostgresParameters) { parameters.append(timestamp: sent) }

    package func appendElement(to parameters: inout PostgresParameters) { parameters.element(timestamp: sent) }

    /// The value for the parameters' encoding: PostgreSQL's extremes mean `infinity` and `-infinity`, and so do ours.
    private var sent: Int64 {
        switch microseconds {
        case .max: .max &+ postgresEpochMicroseconds
        case ..<(.min + postgresEpochMicroseconds): .min + postgresEpochMicroseconds
        default: microseconds
        }
    }
}

extension Duration: SQLElement {
    package static var postgresType: PostgresType { .interval }

    package func append(to parameters: inout PostgresParameters) { parameters.append(interval: microseconds) }

    package func appendElement(to parameters: inout PostgresParameters) {
        parameters.element(interval: microseconds)
    }
}

extension Digest128: SQLElement {
    package static var postgresType: PostgresType { .uuid }

    package func append(to parameters: inout PostgresParameters) { parameters.append(uuidHigh: high, low: low) }

    package func appendElement(to parameters: inout PostgresParameters) {
        parameters.element(uuidHigh: high, low: low)
    }
}

/// Bytes of a `bytea` parameter or column.
package struct Bytea: SQLElement, SQLDecodable {
    package var bytes: [UInt8]

    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package static var postgresType: PostgresType { .bytea }

    package func append(to parameters: inout PostgresParameters) {
        bytes.withUnsafeBytes { parameters.append(bytes: $0, as: .bytea) }
    }

    package func appendElement(to parameters: inout PostgresParameters) {
        bytes.withUnsafeBytes { parameters.element($0) }
    }

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

    package func append(to parameters: inout PostgresParameters) {
        utf8.withUnsafeBytes { parameters.append(bytes: $0, as: .json) }
    }

    package func appendElement(to parameters: inout PostgresParameters) {
        utf8.withUnsafeBytes { parameters.element($0) }
    }

    package init(_ field: SQLField) throws(SQLFieldFault) {
        self.init(utf8: [UInt8](try field.bytes("json") { $0 == PostgresType.json.oid || $0 == PostgresType.text.oid }))
    }
}
