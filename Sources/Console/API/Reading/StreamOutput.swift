import Hummingbird
import NIOCore
import Synchronization

/// Where a streamed answer goes; used by one task at a time, watched by another.
final class StreamOutput: @unchecked Sendable {
    // The library's writer, which is a value; only the task that writes touches it.
    private var writer: any ResponseBodyWriter
    private let times = Mutex(Times())

    private struct Times {
        /// Since when a write has waited for the client; nil while none does.
        var waitingSince: ContinuousClock.Instant?
        var lastWrite = ContinuousClock.now
    }

    init(_ writer: any ResponseBodyWriter) { self.writer = writer }

    /// Sends bytes; waits while the client does not read.
    func write(_ bytes: ByteBuffer) async throws {
        guard bytes.readableBytes > 0 else { return }
        times.withLock { $0.waitingSince = .now }
        defer { times.withLock { ($0.waitingSince, $0.lastWrite) = (nil, .now) } }
        try await writer.write(bytes)
    }

    /// Sends a text.
    func write(_ text: String) async throws { try await write(ByteBuffer(string: text)) }

    /// Ends the answer as a complete one.
    func finish() async throws { try await writer.finish(nil) }

    /// How long the client has kept a write waiting.
    var stall: Duration { times.withLock { $0.waitingSince.map { .now - $0 } } ?? .zero }

    /// How long ago something was sent.
    var silence: Duration { .now - times.withLock(\.lastWrite) }
}

/// A client kept a write waiting for too long; the connection is aborted.
struct StalledClient: Error {}
