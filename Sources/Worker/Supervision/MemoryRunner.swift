import CGlibc
import ServiceLifecycle
import Telemetry

/// Returns memory to the system that only the start, many handshakes, or an outage needed.
///
/// The start runs much of the program once: see ``ProgramCode``.
///
/// A TLS handshake takes some 30 KB that are free once it is done. If hundreds begin at once (at startup, or after a
/// server restart), glibc keeps most of that: 14 KB per connection, measured with 501 connections.
///
/// Large stanzas that waited for the database, and messages that waited for handlers, are freed at once, but glibc
/// keeps that memory too: 70 MB for twelve connections with stanzas of 250 KB.
struct MemoryRunner: Service {
    /// The time after which the worker has started, unless it is still connecting; code that is still needed is loaded
    /// again.
    private static let startTime = Duration.seconds(1)
    private static let interval = Duration.seconds(2)
    /// Fewer handshakes free too little to be worth walking the heap.
    private static let handshakeThreshold = 16

    let metrics: Metrics

    func run() async {
        await cancelWhenGracefulShutdown {
            var hasStarted = false
            // The most concurrent handshakes since memory was last returned.
            var most = 0
            var boundBefore = 0
            var delay = Self.startTime
            var unused = UnusedMemory()
            while (try? await Task.sleep(for: delay)) != nil {
                delay = Self.interval
                if unused.isWorthReturning(mallinfo2().fordblks) {
                    _ = malloc_trim(0)
                    unused.returned(mallinfo2().fordblks)
                }
                let bound = total(.bound)
                let connecting = total(.connecting)
                most = max(most, connecting, bound - boundBefore)
                boundBefore = bound
                guard connecting == 0 else { continue }
                let wereMany = most >= Self.handshakeThreshold
                if wereMany || !hasStarted { ProgramCode.release() }
                if wereMany { _ = malloc_trim(0) }
                hasStarted = true
                most = 0
            }
        }
    }

    private func total(_ state: ConnectionState) -> Int {
        metrics.senders.indices.reduce(0) { $0 + metrics.connections(sender: $1, state: state).value }
    }
}

/// Decides when memory kept by glibc is worth returning to the system.
struct UnusedMemory {
    /// Less is not worth walking the heap.
    static let threshold = 16 << 20

    /// The lowest unused memory in bytes since the last return, after which some counts as unused still.
    private var least = Int.max

    /// Whether enough memory has become unused.
    mutating func isWorthReturning(_ bytes: Int) -> Bool {
        least = min(least, bytes)
        return bytes - least >= Self.threshold
    }

    /// Records a return, with the memory unused now.
    mutating func returned(_ bytes: Int) { least = bytes }
}
