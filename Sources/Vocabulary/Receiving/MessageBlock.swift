import Synchronization

/// Memory that is given away from the front, once until it is used again.
final class MessageBlock: @unchecked Sendable {
    // Sendable: each byte is written by who took it, before anyone else knows of it.

    private let memory: UnsafeMutableBufferPointer<UInt8>
    /// Atomic, so that not even two copies of a ``MessageStorage`` give the same bytes away.
    private let used = Atomic(0)

    init(capacity: Int) { memory = .allocate(capacity: max(capacity, 1)) }

    deinit { memory.deallocate() }

    /// One for a message, and for others of its read.
    ///
    /// - Parameters:
    ///   - size: The bytes that the message takes at most.
    ///   - expected: About how many the others are going to take.
    ///   - isFirst: Whether the read has filled no block yet.
    /// - Returns: An empty block, with room for the message at least.
    static func filled(by size: Int, expected: Int, isFirst: Bool) -> MessageBlock {
        let sum = size + min(expected, MessageStorage.blockBytes)
        // A read of a few messages gets memory made to measure: many such may be kept for long, each from another read.
        if size <= MessageStorage.blockBytes, !isFirst || sum >= MessageStorage.blockBytes / 2 { return pool.next() }
        return MessageBlock(capacity: max(size, min(sum, MessageStorage.blockBytes)))
    }

    private static let pool = MessageBlockPool()

    /// The next `count` bytes; nil where so many are not left.
    func take(_ count: Int) -> UnsafeMutablePointer<UInt8>? {
        guard memory.count - used.load(ordering: .relaxed) >= count else { return nil }
        let end = used.add(count, ordering: .relaxed).newValue
        return end <= memory.count ? memory.baseAddress.map { $0 + (end - count) } : nil
    }

    /// All bytes, of a block that nobody else has.
    func takeAll() -> UnsafeMutablePointer<UInt8> {
        used.store(memory.count, ordering: .relaxed)
        // Never nil: it has at least one byte.
        return memory.baseAddress.unsafelyUnwrapped
    }

    /// Gives all of it away anew; nobody else has it.
    fileprivate func reset() { used.store(0, ordering: .relaxed) }
}

/// Blocks of ``MessageStorage/blockBytes`` that are used again once no message is in them.
///
/// So receiving allocates nothing for its messages while these come and go at about the same pace. There are as many as
/// messages under way fill, up to a limit; beyond it, as in a database's outage, blocks are allocated and freed.
final class MessageBlockPool: Sendable {
    private struct State {
        /// In the order of their last use, the oldest at `next`.
        var blocks: [MessageBlock] = []
        var next = 0
    }

    private let state = Mutex(State())
    private let limit: Int

    /// - Parameter limit: How many blocks are kept at most: 2 MB of them.
    init(limit: Int = 256) { self.limit = limit }

    /// An empty block.
    func next() -> MessageBlock {
        state.withLock { state in
            if state.next == state.blocks.count { state.next = 0 }
            defer { state.next += 1 }
            // Only the pool could hand out another reference to it, so it stays the only one.
            if !state.blocks.isEmpty, isKnownUniquelyReferenced(&state.blocks[state.next]) {
                // What others did with the bytes comes before they let go of them.
                atomicMemoryFence(ordering: .acquiring)
                state.blocks[state.next].reset()
                return state.blocks[state.next]
            }
            let block = MessageBlock(capacity: MessageStorage.blockBytes)
            if state.blocks.count < limit {
                state.blocks.insert(block, at: state.next)
            } else {
                // Its messages free the one that stood here.
                state.blocks[state.next] = block
            }
            return block
        }
    }
}
