import CLibPQ
import Glibc

/// A statement's parameters in PostgreSQL's binary form, in one block of memory.
///
/// Scalars by `append`; arrays by ``beginArray(of:count:)``, one `element` or ``nullElement()`` for each member, and
/// ``endArray()``. Bytes are copied once, into the block that libpq sends from.
package struct PostgresParameters: ~Copyable, @unchecked Sendable {
    // Sendable: the only owner of its memory.

    struct Slot {
        var oid: UInt32
        var offset: Int
        // -1: null
        var count: Int
    }

    @usableFromInline var base: UnsafeMutableRawPointer
    @usableFromInline var capacity: Int
    @usableFromInline var count = 0
    private(set) var slots: [Slot] = []
    private var arrayCountOffset = 0
    @usableFromInline var hasNull = false
    @usableFromInline var elements = 0

    /// No parameters, with room for `capacity` bytes; grows on demand.
    package init(capacity: Int = 256) {
        self.capacity = max(capacity, 64)
        base = .allocate(byteCount: self.capacity, alignment: 16)
    }

    deinit { base.deallocate() }

    package mutating func appendNull(_ type: PostgresType) {
        slots.append(Slot(oid: type.oid, offset: 0, count: -1))
    }

    package mutating func append<Value: SQLElement>(_ value: Value) {
        let start = count
        value.write(to: &self)
        slots.append(Slot(oid: Value.postgresType.oid, offset: start, count: count - start))
    }

    /// A value given in its binary form: `text`, `bytea`, `json`.
    package mutating func append(bytes: UnsafeRawBufferPointer, as type: PostgresType) {
        slots.append(Slot(oid: type.oid, offset: count, count: bytes.count))
        put(bytes)
    }

    /// Starts a one-dimensional array of `count` members.
    package mutating func beginArray(of type: PostgresType, count members: Int) {
        slots.append(Slot(oid: type.arrayOID, offset: count, count: 0))
        // Dimensions, has-null flag and element type, then the one dimension's length and lower bound. An empty array
        // has no dimension.
        hasNull = false
        elements = members
        put(UInt32(members == 0 ? 0 : 1))
        arrayCountOffset = count
        put(UInt32(0))
        put(type.oid)
        guard members > 0 else { return }
        put(UInt32(members))
        put(UInt32(1))
    }

    /// - Precondition: ``beginArray(of:count:)`` announced this number of members.
    package mutating func endArray() {
        precondition(elements == 0, "array parameter with another number of members than announced")
        if hasNull { base.storeBytes(of: UInt32(1).bigEndian, toByteOffset: arrayCountOffset, as: UInt32.self) }
        slots[slots.count - 1].count = count - slots[slots.count - 1].offset
    }

    /// A member given in its binary form.
    @inlinable
    package mutating func element(_ bytes: UnsafeRawBufferPointer) {
        elements -= 1
        reserve(bytes.count + 4)
        (base + count).storeBytes(of: UInt32(truncatingIfNeeded: bytes.count).bigEndian, as: UInt32.self)
        if let source = bytes.baseAddress { (base + count + 4).copyMemory(from: source, byteCount: bytes.count) }
        count += bytes.count + 4
    }

    @inlinable
    package mutating func nullElement() {
        elements -= 1
        hasNull = true
        put(UInt32.max)
    }

    /// A `uuid` member of two big-endian halves.
    @inlinable
    package mutating func element(uuidHigh high: UInt64, low: UInt64) {
        elements -= 1
        put(UInt32(16))
        put(high)
        put(low)
    }

    /// A `timestamptz` member, in microseconds since 1970-01-01 UTC.
    @inlinable
    package mutating func element(timestamp: Int64) {
        elements -= 1
        put(UInt32(8))
        put(UInt64(bitPattern: timestamp &- postgresEpochMicroseconds))
    }

    mutating func element(_ value: some SQLElement) {
        elements -= 1
        let place = count
        put(UInt32(0))
        value.write(to: &self)
        let length = UInt32(truncatingIfNeeded: count - place - 4)
        (base + place).storeBytes(of: length.bigEndian, as: UInt32.self)
    }

    @inlinable
    mutating func put(_ value: UInt32) {
        reserve(4)
        (base + count).storeBytes(of: value.bigEndian, as: UInt32.self)
        count += 4
    }

    @inlinable
    mutating func put(_ value: UInt64) {
        reserve(8)
        (base + count).storeBytes(of: value.bigEndian, as: UInt64.self)
        count += 8
    }

    mutating func put(_ bytes: UnsafeRawBufferPointer) {
        reserve(bytes.count)
        if let source = bytes.baseAddress { (base + count).copyMemory(from: source, byteCount: bytes.count) }
        count += bytes.count
    }

    @inlinable
    mutating func reserve(_ more: Int) {
        if capacity - count < more { grow(more) }
    }

    @usableFromInline
    mutating func grow(_ more: Int) {
        capacity = max(capacity * 2, count + more)
        let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        larger.copyMemory(from: base, byteCount: count)
        base.deallocate()
        base = larger
    }
}

extension PostgresParameters {
    typealias Values = UnsafeBufferPointer<UnsafePointer<CChar>?>
    typealias Integers = UnsafeBufferPointer<Int32>

    /// Lends the parameters in the form of libpq's `PQsend…` functions.
    func withArguments<T>(_ body: (Values, Integers, Integers) -> T) -> T {
        let values = slots.map { slot -> UnsafePointer<CChar>? in
            slot.count < 0 ? nil : UnsafePointer((base + slot.offset).assumingMemoryBound(to: CChar.self))
        }
        let lengths = slots.map { Int32(clamping: max(0, $0.count)) }
        let formats = [Int32](repeating: 1, count: slots.count)
        return values.withUnsafeBufferPointer { values in
            lengths.withUnsafeBufferPointer { lengths in
                formats.withUnsafeBufferPointer { formats in body(values, lengths, formats) }
            }
        }
    }

    func withTypes<T>(_ body: (UnsafeBufferPointer<Oid>) -> T) -> T {
        slots.map { Oid($0.oid) }.withUnsafeBufferPointer(body)
    }
}

/// Lends keywords and values in the form of libpq's `PQconnect…Params` functions.
func withKeywords<T>(
    _ list: [(String, String)],
    _ body: (UnsafePointer<UnsafePointer<CChar>?>, UnsafePointer<UnsafePointer<CChar>?>) -> T?
) -> T? {
    withCStrings(list.map(\.0)) { keywords in withCStrings(list.map(\.1)) { values in body(keywords, values) } }
}

private func withCStrings<T>(_ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>) -> T?) -> T? {
    // We own the copies and free them below.
    let copies = strings.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    let pointers = copies.map { $0.map { UnsafePointer($0) } } + [nil]
    return pointers.withUnsafeBufferPointer { $0.baseAddress.flatMap(body) }
}
