import Hummingbird
import NIOCore
import Synchronization

/// The output of a streamed answer; used by one task at a time, watched by another.
final class StreamOutput: @unchecked Sendable {
    // A value of the library; only the writing task touches it.
    private var writer: any ResponseBodyWriter
    private let times = Mutex(Times())

    private struct Times {
        /// The start of the write that waits for the client; nil if none does.
        var waitingSince: ContinuousClock.Instant?
        var lastWrite = ContinuousClock.now
    }

    init(_ writer: any ResponseBodyWriter) { self.writer = writer }

    /// Sends bytes, waiting while the client does not read.
    func write(_ bytes: ByteBuffer) async throws {
        guard bytes.readableBytes > 0 else { return }
        times.withLock { $0.waitingSince = .now }
        defer { times.withLock { ($0.waitingSince, $0.lastWrite) = (nil, .now) } }
        try await writer.write(bytes)
    }

    func write(_ text: String) async throws { try await write(ByteBuffer(string: text)) }

    func finish() async throws { try await writer.finish(nil) }

    /// How long the current write has waited.
    var stall: Duration { times.withLock { $0.waitingSince.map { .now - $0 } } ?? .zero }

    var silence: Duration { .now - times.withLock(\.lastWrite) }
}

/// A client kept a write waiting too long; the connection is aborted.
struct StalledClient: Error {}
