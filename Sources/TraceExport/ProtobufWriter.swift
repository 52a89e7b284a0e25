/// Writes protocol buffers' wire format (https://protobuf.dev/programming-guides/encoding/), field by field.
///
/// Fields with their default value are left out, as in proto3, except those written with ``message(_:_:)``.
struct ProtobufWriter {
    private(set) var bytes: [UInt8] = []

    private enum WireType: UInt64 {
        case varint = 0
        case fixed64 = 1
        case length = 2
        case fixed32 = 5
    }

    init(capacity: Int = 0) { bytes.reserveCapacity(capacity) }

    mutating func string(_ field: UInt64, _ text: String) {
        guard !text.isEmpty else { return }
        var text = text
        text.withUTF8 { text in
            tag(field, .length)
            varint(UInt64(text.count))
            bytes.append(contentsOf: text)
        }
    }

    /// Writes `bytes`: the big-endian bytes of these numbers in a row.
    mutating func bytes(_ field: UInt64, _ words: UInt64...) {
        tag(field, .length)
        varint(UInt64(words.count * 8))
        for word in words {
            withUnsafeBytes(of: word.bigEndian) { bytes.append(contentsOf: $0) }
        }
    }

    /// Writes `uint32`, `uint64`, `int64`, an enum or a bool.
    mutating func number(_ field: UInt64, _ value: UInt64) {
        guard value != 0 else { return }
        element(field, value)
    }

    /// The same even for the default value: a field of a `oneof`.
    mutating func element(_ field: UInt64, _ value: UInt64) {
        tag(field, .varint)
        varint(value)
    }

    /// Writes `fixed64` or `double`, even the default value.
    mutating func fixed64(_ field: UInt64, _ value: UInt64) {
        tag(field, .fixed64)
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func fixed32(_ field: UInt64, _ value: UInt32) {
        guard value != 0 else { return }
        tag(field, .fixed32)
        withUnsafeBytes(of: value.littleEndian) { bytes.append(contentsOf: $0) }
    }

    mutating func message(_ field: UInt64, _ body: (inout ProtobufWriter) -> Void) {
        tag(field, .length)
        // The length comes first: one byte is reserved, which is enough for most, and more is inserted if needed.
        let start = bytes.count
        bytes.append(0)
        body(&self)
        var length = ProtobufWriter()
        length.varint(UInt64(bytes.count - start - 1))
        bytes.replaceSubrange(start...start, with: length.bytes)
    }

    mutating func raw(_ other: [UInt8]) { bytes.append(contentsOf: other) }

    private mutating func tag(_ field: UInt64, _ type: WireType) { varint(field << 3 | type.rawValue) }

    private mutating func varint(_ value: UInt64) {
        var rest = value
        while rest > 0x7F {
            bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(truncatingIfNeeded: rest))
    }
}

/// Reads the fields of one message; never traps, and ends at the first invalid byte: they are the collector's.
struct ProtobufReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) { rest = bytes }

    /// The next field, either a number or bytes; nil at the end or at invalid bytes.
    mutating func next() -> (field: UInt64, number: UInt64, bytes: ArraySlice<UInt8>)? {
        while let tag = varint() {
            switch tag & 7 {
            case 0: return varint().map { (tag >> 3, $0, []) }
            case 1: guard take(8) != nil else { return nil }
            case 2: return varint().flatMap { take($0) }.map { (tag >> 3, 0, $0) }
            case 5: guard take(4) != nil else { return nil }
            default: return nil
            }
        }
        return nil
    }

    private mutating func take(_ count: UInt64) -> ArraySlice<UInt8>? {
        guard count <= UInt64(rest.count) else { return nil }
        defer { rest = rest.dropFirst(Int(count)) }
        return rest.prefix(Int(count))
    }

    private mutating func varint() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard let byte = rest.popFirst() else { return nil }
            value |= UInt64(byte & 0x7F) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }
}
