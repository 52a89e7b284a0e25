import NIOCore

/// The read buffer sizes of a connection: small during the handshake and on an idle stream, since the channel keeps its
/// buffer; adaptive as in NIO once it proves busy.
struct ReadSizes: RecvByteBufferAllocator {
    /// The first buffer size in bytes.
    static let initial = 512
    /// How many full reads show that the buffer is too small: more than a long handshake has (8 KB).
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
