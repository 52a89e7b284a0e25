import CLibPQ
import Glibc

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

func withCStrings<T>(_ strings: [String], _ body: (UnsafePointer<UnsafePointer<CChar>?>) -> T?) -> T? {
    // We own the copies and free them below.
    let copies = strings.map { strdup($0) }
    defer { for copy in copies { free(copy) } }
    let pointers = copies.map { $0.map { UnsafePointer($0) } } + [nil]
    return pointers.withUnsafeBufferPointer { $0.baseAddress.flatMap(body) }
}
