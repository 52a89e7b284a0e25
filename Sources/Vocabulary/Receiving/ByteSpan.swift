/// A part of a message's byte storage: 8 bytes where a `Range<Int>` would take 16.
package struct ByteSpan: Sendable, Equatable {
    /// The offset of the first byte.
    package var start: UInt32

    /// The number of bytes.
    package var count: UInt32

    /// The span of `count` bytes from `start`.
    ///
    /// - Precondition: Both fit 32 bits; a stanza's size limit is far below that.
    @inlinable
    @inline(__always)
    package init(start: Int, count: Int) {
        self.start = UInt32(start)
        self.count = UInt32(count)
    }

    /// The span as a range of array indices.
    @inlinable package var range: Range<Int> {
        @inline(__always) get { Int(start)..<Int(start) + Int(count) }
    }
}
