/// A part of a message's bytes, in 8 bytes where a `Range<Int>` would take 16.
package struct ByteSpan: Sendable, Equatable {
    package var start: UInt32
    package var count: UInt32

    /// - Precondition: Both fit 32 bits; a stanza's size limit is far below that.
    @inlinable
    @inline(__always)
    package init(start: Int, count: Int) {
        self.start = UInt32(start)
        self.count = UInt32(count)
    }

    @inlinable package var range: Range<Int> {
        @inline(__always) get { Int(start)..<Int(start) + Int(count) }
    }
}
