import CLibPQ
package import Vocabulary

/// A value of a row as sent by the server: its type, and its bytes in binary form.
package struct SQLField {
    /// The type's object id.
    let type: UInt32
    /// The bytes, owned by the result; nil for null.
    let bytes: UnsafeRawBufferPointer?

    /// The bytes, owned by the result, of a non-null value of one of the wanted types; `name` is for the error.
    @inline(__always)
    func bytes(_ name: String, _ isWanted: (UInt32) -> Bool) throws(SQLFieldFault) -> UnsafeRawBufferPointer {
        guard let bytes else { throw .null(name) }
        guard isWanted(type) else { throw .type(name) }
        return bytes
    }

    /// The bits of a number of this type.
    func number<Bits: FixedWidthInteger>(_ name: String, _ wanted: PostgresType) throws(SQLFieldFault) -> Bits {
        let bytes = try bytes(name) { $0 == wanted.oid }
        guard bytes.count == MemoryLayout<Bits>.size else { throw .form(name) }
        return Bits(bigEndian: bytes.loadUnaligned(as: Bits.self))
    }
}

/// Why a value can't be decoded, with the wanted type's name.
package enum SQLFieldFault: Error {
    case null(String)
    case type(String)
    /// The bytes don't fit the type's form or range.
    case form(String)
}

/// A type that a column is decoded to.
package protocol SQLDecodable {
    init(_ field: SQLField) throws(SQLFieldFault)
}

/// A row of a result, read from left to right by ``next(_:)``, or by name.
///
/// An unexpected null, another type, and a missing or left-over column are errors of class `schema` that name the
/// column, never its value.
package struct PostgresRow {
    private let result: PostgresResult
    private let row: Int32
    private var column: Int32 = 0

    init(_ result: PostgresResult, _ row: Int) {
        self.result = result
        self.row = Int32(row)
    }

    /// Reads the next column.
    package mutating func next<Value: SQLDecodable>(_ type: Value.Type = Value.self) throws(PostgresError) -> Value {
        guard column < PQnfields(result.pointer) else {
            throw PostgresError(.schema, "the statement returns \(column) columns, and more are read")
        }
        defer { column += 1 }
        return try value(at: Int(column))
    }

    /// Whether columns are left to read.
    package var hasMore: Bool { column < PQnfields(result.pointer) }

    package mutating func skip(_ columns: Int) { column += Int32(columns) }

    /// Skips the remaining columns, whose bytes the caller reads from the result.
    package mutating func skipRest() { column = PQnfields(result.pointer) }

    /// Reads the first column of this name.
    package func value<Value: SQLDecodable>(
        _ name: String,
        as type: Value.Type = Value.self
    ) throws(PostgresError) -> Value {
        let column = PQfnumber(result.pointer, "\"\(name)\"")
        guard column >= 0 else { throw PostgresError(.schema, "the statement returns no column '\(name)'") }
        return try value(at: Int(column))
    }

    /// Reads the column at a place, from 0.
    package func value<Value: SQLDecodable>(at place: Int) throws(PostgresError) -> Value {
        let (pointer, column) = (result.pointer, Int32(place))
        let isNull = PQgetisnull(pointer, row, column) == 1
        // libpq owns the bytes until PQclear.
        let start = isNull ? nil : PQgetvalue(pointer, row, column)
        let bytes = start.map { UnsafeRawBufferPointer(start: $0, count: Int(PQgetlength(pointer, row, column))) }
        do throws(SQLFieldFault) {
            return try withExtendedLifetime(result) { () throws(SQLFieldFault) in
                try Value(SQLField(type: PQftype(pointer, column), bytes: bytes))
            }
        } catch {
            let what =
                switch error {
                case .null(let type): "is null, and must be \(type)"
                case .type(let type): "is of type \(PQftype(pointer, column)), and must be \(type)"
                case .form(let type): "is not a \(type) in binary form, or out of range"
                }
            // libpq owns the text.
            let name = PQfname(pointer, column).map { String(cString: $0) } ?? "?"
            throw PostgresError(.schema, "column \(column + 1) ('\(name)') \(what)")
        }
    }

    /// Makes a value of the next columns in order, by `make`: a closure, or a type's memberwise initialiser.
    package mutating func next<each Column: SQLDecodable, Value>(
        _ make: (repeat each Column) -> Value
    ) throws(PostgresError) -> Value {
        let value = make(repeat try next((each Column).self))
        // Where every member has a default, `Type.init` may be the initialiser without parameters.
        guard column > 0 else { throw PostgresError(.schema, "no column is read: name the initialiser's parameters") }
        return value
    }

    fileprivate func end() throws(PostgresError) {
        let count = PQnfields(result.pointer)
        guard column == count || column == 0 else {
            throw PostgresError(.schema, "the statement returns \(count) columns, and \(column) are read")
        }
    }
}

/// Each function throws ``PostgresError`` of class `schema`, and what its closure throws.
extension PostgresResult {
    /// Makes a value of each row from its columns in order, by `make`: a closure, or a type's memberwise initialiser.
    package func rows<each Column: SQLDecodable, Value>(
        _ make: (repeat each Column) -> Value
    ) throws(PostgresError) -> [Value] {
        try map { row throws(PostgresError) in try row.next(make) }
    }

    /// Each row as a tuple of its columns, or as its only column.
    package func rows<each Column: SQLDecodable>(
        as _: (repeat each Column).Type
    ) throws(PostgresError) -> [(repeat each Column)] {
        try map { row throws(PostgresError) in (repeat try row.next((each Column).self)) }
    }

    /// Makes a value of the first row's columns; nil if there is none.
    package func firstRow<each Column: SQLDecodable, Value>(
        _ make: (repeat each Column) -> Value
    ) throws(PostgresError) -> Value? {
        try first { row throws(PostgresError) in try row.next(make) }
    }

    /// Makes a value of the columns of exactly one row.
    package func onlyRow<each Column: SQLDecodable, Value>(
        _ make: (repeat each Column) -> Value
    ) throws(PostgresError) -> Value {
        try only { row throws(PostgresError) in try row.next(make) }
    }

    /// Reads exactly one row and column.
    package func value<Value: SQLDecodable>(_ type: Value.Type = Value.self) throws(PostgresError) -> Value {
        try only { row throws(PostgresError) in try row.next() }
    }

    /// Decodes every row; `decode` reads all columns in order, or some by name.
    package func map<Value>(
        _ decode: (inout PostgresRow) throws(PostgresError) -> Value
    ) throws(PostgresError) -> [Value] {
        var values: [Value] = []
        values.reserveCapacity(count)
        for index in 0..<count { values.append(try read(index, decode)) }
        return values
    }

    /// Decodes the first row; nil if there is none.
    package func first<Value>(
        _ decode: (inout PostgresRow) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value? {
        count == 0 ? nil : try read(0, decode)
    }

    /// Decodes exactly one row.
    package func only<Value>(
        _ decode: (inout PostgresRow) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        guard count == 1 else { throw PostgresError(.schema, "the statement returns \(count) rows instead of one") }
        return try read(0, decode)
    }

    /// Decodes a row by its number, from 0.
    package func read<Value>(
        _ index: Int,
        _ decode: (inout PostgresRow) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        var row = PostgresRow(self, index)
        let value = try decode(&row)
        try row.end()
        return value
    }
}

// MARK: Decodable types

extension Optional: SQLDecodable where Wrapped: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        self = field.bytes == nil ? nil : try Wrapped(field)
    }
}

extension String: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        // The binary form of json is its text.
        let bytes = try field.bytes("text") {
            $0 == PostgresType.text.oid || $0 == PostgresType.json.oid || $0 == PostgresType.varchar.oid
                || $0 == PostgresType.name.oid
        }
        self.init(decoding: bytes, as: UTF8.self)
    }
}

extension SQLDecodable where Self: RawRepresentable<String> {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        guard let value = Self(rawValue: try String(field)) else { throw .form("\(Self.self)") }
        self = value
    }
}

extension Bool: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        self = try field.bytes("bool") { $0 == PostgresType.bool.oid }.first == 1
    }
}

extension Int64: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        let bytes = try field.bytes("integer") {
            $0 == PostgresType.int8.oid || $0 == PostgresType.int4.oid || $0 == PostgresType.int2.oid
                || $0 == PostgresType.oid.oid
        }
        switch bytes.count {
        case 2: self = Int64(Int16(bigEndian: bytes.loadUnaligned(as: Int16.self)))
        case 4 where field.type == PostgresType.oid.oid:
            self = Int64(UInt32(bigEndian: bytes.loadUnaligned(as: UInt32.self)))
        case 4: self = Int64(Int32(bigEndian: bytes.loadUnaligned(as: Int32.self)))
        case 8: self = Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))
        default: throw .form("integer")
        }
    }
}

extension Int: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) { self = Int(try Int64(field)) }
}

extension Double: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        self.init(bitPattern: try field.number("double precision", .float8))
    }
}

extension Timestamp: SQLDecodable {
    /// Reads a `timestamptz`; `infinity` and `-infinity` become the last and the first moment.
    package init(_ field: SQLField) throws(SQLFieldFault) {
        let count: Int64 = try field.number("timestamptz", .timestamptz)
        let (microseconds, isBeyond) = count.addingReportingOverflow(postgresEpochMicroseconds)
        self.init(microseconds: count == .min ? .min : isBeyond ? .max : microseconds)
    }
}

extension Duration: SQLDecodable {
    /// Reads an `interval` without months; its days have 24 hours.
    package init(_ field: SQLField) throws(SQLFieldFault) {
        let bytes = try field.bytes("interval") { $0 == PostgresType.interval.oid }
        guard bytes.count == 16, bytes.loadUnaligned(fromByteOffset: 12, as: Int32.self) == 0 else {
            throw .form("interval")
        }
        let days = Int32(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: Int32.self))
        self = .microseconds(Int64(bigEndian: bytes.loadUnaligned(as: Int64.self))) + .seconds(86_400 * Int64(days))
    }
}

extension Digest128: SQLDecodable {
    package init(_ field: SQLField) throws(SQLFieldFault) {
        let bytes = try field.bytes("uuid") { $0 == PostgresType.uuid.oid }
        guard bytes.count == 16 else { throw .form("uuid") }
        self.init(
            high: UInt64(bigEndian: bytes.loadUnaligned(as: UInt64.self)),
            low: UInt64(bigEndian: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
        )
    }
}

extension [String]: SQLDecodable {
    /// Reads a one-dimensional `text[]` or `name[]` without null members.
    package init(_ field: SQLField) throws(SQLFieldFault) {
        var bytes = try field.bytes("text[]") { $0 == PostgresType.text.arrayOID || $0 == PostgresType.name.arrayOID }
        func word() throws(SQLFieldFault) -> Int32 {
            guard bytes.count >= 4 else { throw .form("text[]") }
            defer { bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(4)) }
            return Int32(bigEndian: bytes.loadUnaligned(as: Int32.self))
        }
        // Dimensions, has-null flag and element type, then each dimension's length and lower bound.
        let dimensions = try word()
        _ = try word()
        _ = try word()
        self = []
        guard dimensions != 0 else { return }
        guard dimensions == 1 else { throw .form("text[]") }
        let count = try word()
        _ = try word()
        for _ in 0..<Swift.max(0, count) {
            let length = Int(try word())
            guard length >= 0, length <= bytes.count else { throw .form("text[]") }
            append(String(decoding: bytes.prefix(length), as: UTF8.self))
            bytes = UnsafeRawBufferPointer(rebasing: bytes.dropFirst(length))
        }
    }
}
