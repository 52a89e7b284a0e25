/// The immutable bytes of one message: a part of a block that the messages of one read share.
///
/// It keeps its whole block alive, which is ``MessageStorage/blockBytes`` large or holds this message alone.
package struct MessageBytes: @unchecked Sendable {
    // Sendable: a part given to a message is never written again.

    /// Keeps the memory alive.
    private let block: MessageBlock
    @usableFromInline let base: UnsafePointer<UInt8>
    package private(set) var count: Int

    fileprivate init(_ block: MessageBlock, at base: UnsafePointer<UInt8>, count: Int) {
        self.block = block
        self.base = base
        self.count = count
    }

    /// A copy of these bytes in their own block.
    package init(_ bytes: some Collection<UInt8>) {
        let block = MessageBlock(capacity: bytes.count)
        let base = block.takeAll()
        _ = UnsafeMutableBufferPointer(start: base, count: bytes.count).initialize(fromContentsOf: bytes)
        self.init(block, at: base, count: bytes.count)
    }

    /// Appends a copy, moving everything to its own block.
    package static func += (bytes: inout MessageBytes, more: some Collection<UInt8>) {
        bytes = MessageBytes(Array(bytes) + Array(more))
    }

    package mutating func truncate(to count: Int) {
        precondition(count <= self.count)
        self.count = count
    }

    @inlinable
    package func withUnsafeBufferPointer<T, E: Error>(
        _ body: (UnsafeBufferPointer<UInt8>) throws(E) -> T
    ) throws(E) -> T {
        defer { _fixLifetime(self) }
        return try body(unsafeBytes)
    }

    @inlinable
    package func withUnsafeBytes<T, E: Error>(_ body: (UnsafeRawBufferPointer) throws(E) -> T) throws(E) -> T {
        defer { _fixLifetime(self) }
        return try body(UnsafeRawBufferPointer(unsafeBytes))
    }

    /// The bytes, without reference counting: valid while a message that holds them is alive.
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

/// A connection's allocator of message bytes; the messages of one read share a block.
package struct MessageStorage: Sendable {
    /// The size of a shared block: about six ordinary messages, which share its cost.
    package static let blockBytes = 8 << 10

    private var block: MessageBlock?

    package init() {}

    /// Reserves room for one message of at most `size` bytes: truncate the bytes to what was filled at `base`.
    ///
    /// `expected` estimates the bytes that other messages of the same read need; 0 releases the block.
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
