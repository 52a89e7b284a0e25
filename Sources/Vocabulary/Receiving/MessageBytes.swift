/// The bytes of one message: a part of a block that the messages of one read share.
///
/// They never change. A message keeps its whole block alive, which is ``MessageStorage/blockBytes`` large or holds this
/// message alone: so what a message keeps is bounded by its own size and a small constant.
package struct MessageBytes: @unchecked Sendable {
    // Sendable: no one writes to a part of a block that has been given to a message.

    /// Holds the memory.
    private let block: MessageBlock
    @usableFromInline let base: UnsafePointer<UInt8>
    /// How many there are.
    package private(set) var count: Int

    /// A part of a block, filled up to `count` bytes.
    fileprivate init(_ block: MessageBlock, at base: UnsafePointer<UInt8>, count: Int) {
        self.block = block
        self.base = base
        self.count = count
    }

    /// A copy of these bytes, in a block of their own.
    package init(_ bytes: some Collection<UInt8>) {
        let block = MessageBlock(capacity: bytes.count)
        let base = block.takeAll()
        _ = UnsafeMutableBufferPointer(start: base, count: bytes.count).initialize(fromContentsOf: bytes)
        self.init(block, at: base, count: bytes.count)
    }

    /// Appends a copy: everything moves to a block of its own.
    package static func += (bytes: inout MessageBytes, more: some Collection<UInt8>) {
        bytes = MessageBytes(Array(bytes) + Array(more))
    }

    /// Leaves out what is behind the first `count` bytes.
    package mutating func truncate(to count: Int) {
        precondition(count <= self.count)
        self.count = count
    }

    /// Calls `body` with the bytes, valid for the call.
    @inlinable
    package func withUnsafeBufferPointer<T, E: Error>(
        _ body: (UnsafeBufferPointer<UInt8>) throws(E) -> T
    ) throws(E) -> T {
        defer { _fixLifetime(self) }
        return try body(unsafeBytes)
    }

    /// Calls `body` with the bytes, valid for the call.
    @inlinable
    package func withUnsafeBytes<T, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> T) throws(E) -> T {
        defer { _fixLifetime(self) }
        return try body(UnsafeRawBufferPointer(unsafeBytes))
    }

    /// The bytes, for as long as the caller knows a message that holds them to be alive.
    ///
    /// For a message that is read in its place in an array: it costs no reference.
    @inlinable package var unsafeBytes: UnsafeBufferPointer<UInt8> {
        @inline(__always) get { UnsafeBufferPointer(start: base, count: count) }
    }
}

extension MessageBytes: RandomAccessCollection {
    @inlinable package var startIndex: Int { 0 }
    @inlinable package var endIndex: Int { count }

    @inlinable package subscript(index: Int) -> UInt8 { withUnsafeBufferPointer { $0[index] } }

    @inlinable
    package func withContiguousStorageIfAvailable<T>(_ body: (UnsafeBufferPointer<UInt8>) throws -> T) rethrows -> T? {
        try withUnsafeBufferPointer(body)
    }
}

/// Memory for the bytes of a connection's messages, which those of one read share.
package struct MessageStorage: Sendable {
    /// The size of a block that several messages share.
    ///
    /// Half a dozen ordinary messages, so that getting it costs little for each, and a message that is kept for longer
    /// than its neighbours keeps little more than itself.
    package static let blockBytes = 8 << 10

    private var block: MessageBlock?

    /// Without memory yet.
    package init() {}

    /// Room for one message.
    ///
    /// - Parameters:
    ///   - size: The bytes that it takes at most.
    ///   - expected: About how many bytes other messages of the same read are going to take; with 0 no memory is kept.
    /// - Returns: The room as bytes, to be truncated to what was filled, and where to write them before anyone reads.
    package mutating func room(_ size: Int, expected: Int) -> (bytes: MessageBytes, base: UnsafeMutablePointer<UInt8>) {
        if let block, let base = block.take(size) {
            if expected == 0 { self.block = nil }
            return (MessageBytes(block, at: base, count: size), base)
        }
        let block = MessageBlock.filled(by: size, expected: expected, isFirst: block == nil)
        self.block = expected == 0 ? nil : block
        let base = block.take(size) ?? block.takeAll()
        return (MessageBytes(block, at: base, count: size), base)
    }
}
