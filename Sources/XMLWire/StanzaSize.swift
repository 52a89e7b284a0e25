/// The size of a stanza for ``StreamLimits/stanzaBytes``: its bytes, with a reference counted as a single character.
///
/// A server applies its own limit before escaping: one apostrophe may reach us as `&apos;`, six bytes. At most five
/// bytes of a reference are free, so a stanza at the limit has at most six times as many bytes.
struct StanzaSize {
    private static let freeBytes = 5

    private(set) var bytes = 0
    /// How many more bytes of the current reference are free.
    private var free = 0

    mutating func add(_ more: UnsafeRawBufferPointer) {
        for byte in more {
            if free > 0 {
                free = byte == UInt8(ascii: ";") ? 0 : free - 1
            } else {
                bytes += 1
                if byte == UInt8(ascii: "&") { free = Self.freeBytes }
            }
        }
    }
}
