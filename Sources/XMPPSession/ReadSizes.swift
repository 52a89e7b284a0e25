import NIOCore

/// How much a connection reads at once: little until it has shown that it brings much.
///
/// The channel keeps its buffer while nothing comes, and most connections are idle for most of their time. So a handshake and what
/// an idle stream gets are read with a small buffer, in a few more reads; after that sizes adapt as they do in NIO.
struct ReadSizes: RecvByteBufferAllocator {
    /// What is read at once at first, in bytes.
    static let initial = 512
    /// How many reads that fill the buffer show that it is too small: more than those of a handshake with a long chain of
    /// certificates (8 KB).
    static let fullReads = 17

    private var full = 0
    private var adaptive = AdaptiveRecvByteBufferAllocator(minimum: 64, initial: 2048, maximum: 65536)
    private var isQuiet: Bool { full < Self.fullReads }

    func buffer(allocator: ByteBufferAllocator) -> ByteBuffer {
        isQuiet ? allocator.buffer(capacity: Self.initial) : adaptive.buffer(allocator: allocator)
    }

    func nextBufferSize() -> Int? { isQuiet ? Self.initial : adaptive.nextBufferSize() }

    mutating func record(actualReadBytes: Int) -> Bool {
        guard isQuiet else { return adaptive.record(actualReadBytes: actualReadBytes) }
        if actualReadBytes >= Self.initial { full += 1 }
        return !isQuiet
    }
}
