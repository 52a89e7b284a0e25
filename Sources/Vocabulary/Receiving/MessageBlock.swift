import Synchronization

/// A bump allocator that is reset for reuse.
final class MessageBlock: @unchecked Sendable {
    // Sendable: whoever took a byte writes it before anyone else knows of it.

    private let memory: UnsafeMutableBufferPointer<UInt8>
    /// Atomic, so that even two copies of a ``MessageStorage`` never get the same bytes.
    private let used = Atomic(0)

    init(capacity: Int) { memory = .allocate(capacity: max(capacity, 1)) }

    deinit { memory.deallocate() }

    /// An empty block for a message of at most `size` bytes and about `expected` bytes of those after it in the read.
    static func filled(by size: Int, expected: Int, isFirst: Bool) -> MessageBlock {
        let capacity = max(size, min(size + min(expected, MessageStorage.blockBytes), MessageStorage.blockBytes))
        // A block that would stay half empty gets the exact size, so that a message kept for long holds no more; but
        // not in the rest of a large read, or each of its messages would allocate.
        let isShared = capacity >= MessageStorage.blockBytes * 3 / 4 || !isFirst
        if size <= MessageStorage.blockBytes, isShared, let block = pool.next() { return block }
        return MessageBlock(capacity: capacity)
    }

    private static let pool = MessageBlockPool()

    /// The next `count` bytes; nil if fewer are left.
    func take(_ count: Int) -> UnsafeMutablePointer<UInt8>? {
        guard memory.count - used.load(ordering: .relaxed) >= count else { return nil }
        let end = used.add(count, ordering: .relaxed).newValue
        return end <= memory.count ? memory.baseAddress.map { $0 + (end - count) } : nil
    }

    /// All bytes of an unshared block.
    func takeAll() -> UnsafeMutablePointer<UInt8> {
        used.store(memory.count, ordering: .relaxed)
        // Never nil: the capacity is at least one byte.
        return memory.baseAddress.unsafelyUnwrapped
    }

    /// Makes all bytes available again; nobody else may hold the block.
    fileprivate func reset() { used.store(0, ordering: .relaxed) }
}

/// Blocks of ``MessageStorage/blockBytes``, reused once no message is in them.
///
/// Beyond the limit, as in a database outage, blocks are allocated and freed.
final class MessageBlockPool: Sendable {
    private struct State {
        /// A ring in the order of last use, the oldest at `next`.
        var blocks: [MessageBlock] = []
        var next = 0
    }

    private let state = Mutex(State())
    private let limit: Int

    /// Keeps at most `limit` blocks, by default 2 MB of them.
    init(limit: Int = MessageBlockPool.limit) { self.limit = limit }

    #if SANITIZE
    /// None, so that a sanitizer sees the use of freed memory.
    private static let limit = 0
    #else
    private static let limit = 256
    #endif

    /// An empty block; nil if the limit is reached and all are in use.
    func next() -> MessageBlock? {
        state.withLock { state in
            // Skips blocks that a slow handler keeps.
            for _ in 0..<state.blocks.count {
                if state.next == state.blocks.count { state.next = 0 }
                defer { state.next += 1 }
                // Only the pool could hand out another reference, so the result stays true.
                guard isKnownUniquelyReferenced(&state.blocks[state.next]) else { continue }
                // Orders others' accesses to the bytes before our reuse.
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
