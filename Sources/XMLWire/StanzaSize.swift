/// How large a stanza is to ``StreamLimits/stanzaBytes``: its bytes, with a reference counted as the one character that it
/// stands for.
///
/// A server's own limit is met by what it was sent, before it escapes: one apostrophe may come to us as `&apos;`, six
/// bytes. No more than five of a reference's bytes are free, so that a stanza of the limit has at most six times as many.
struct StanzaSize {
    private static let freeBytes = 5

    /// The size so far.
    private(set) var bytes = 0
    /// How many more bytes of the reference being read are free.
    private var free = 0

    /// Adds bytes as they came.
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
