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
        let capacity = max(size, min(size + min(expected, MessageStorage.blockBytes), MessageStorage.blockBytes))
        // What would be half empty is made to measure: whoever is kept in it for long keeps no more than that. The rest of a
        // large read is an exception, or each of these would allocate.
        let isShared = capacity >= MessageStorage.blockBytes * 3 / 4 || !isFirst
        if size <= MessageStorage.blockBytes, isShared, let block = pool.next() { return block }
        return MessageBlock(capacity: capacity)
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
    init(limit: Int = MessageBlockPool.limit) { self.limit = limit }

    #if SANITIZE
    /// None: a sanitizer sees who uses freed memory, and that freeing comes after each use.
    private static let limit = 0
    #else
    private static let limit = 256
    #endif

    /// An empty block; nil where the limit is reached and all are in use.
    func next() -> MessageBlock? {
        state.withLock { state in
            // Past those that are kept for long, by a slow handler.
            for _ in 0..<state.blocks.count {
                if state.next == state.blocks.count { state.next = 0 }
                defer { state.next += 1 }
                // Only the pool could hand out another reference to it, so it stays the only one.
                guard isKnownUniquelyReferenced(&state.blocks[state.next]) else { continue }
                // What others did with the bytes comes before they let go of them.
                atomicMemoryFence(ordering: .acquiring)
                state.blocks[state.next].reset()
                return state.blocks[state.next]
            }
            guard state.blocks.count < limit else { return nil }
            let block = MessageBlock(capacity: MessageStorage.blockBytes)
            state.blocks.insert(block, at: state.next)
            state.next += 1
            return block
        }
    }
}
