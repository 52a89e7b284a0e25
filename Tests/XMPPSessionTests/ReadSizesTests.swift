import NIOCore
import Testing

@testable import XMPPSession

@Suite("How much is read at once")
struct ReadSizesTests {
    @Test("Little at first, however many short reads there are")
    func quiet() {
        var sizes = ReadSizes()
        for _ in 0..<1000 {
            let grows = sizes.record(actualReadBytes: ReadSizes.initial - 1)
            #expect(!grows)
        }
        #expect(sizes.nextBufferSize() == ReadSizes.initial)
        #expect(sizes.buffer(allocator: ByteBufferAllocator()).capacity == ReadSizes.initial)
    }

    @Test("A connection that fills its buffer again and again gets a larger one, up to 64 KB, and a smaller one later")
    func busy() {
        var sizes = ReadSizes()
        for number in 1...ReadSizes.fullReads {
            #expect(sizes.nextBufferSize() == ReadSizes.initial)
            let grows = sizes.record(actualReadBytes: ReadSizes.initial)
            #expect(grows == (number == ReadSizes.fullReads))
        }
        for _ in 0..<20 { _ = sizes.record(actualReadBytes: sizes.nextBufferSize() ?? 0) }
        #expect(sizes.nextBufferSize() == 65536)
        #expect(sizes.buffer(allocator: ByteBufferAllocator()).capacity == 65536)
        for _ in 0..<2 { _ = sizes.record(actualReadBytes: 1) }
        #expect(sizes.nextBufferSize() == 32768)
    }
}
