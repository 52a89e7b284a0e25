import CGlibc
import Telemetry

/// Returns memory to the system that only the start, many handshakes, or an outage needed.
///
/// glibc keeps it otherwise: 14 KB per connection if hundreds of handshakes begin at once (measured with 501), and 70 MB
/// of large stanzas that waited for the database (twelve connections, 250 KB each).
struct MemoryRunner {
    /// The time after which the worker has started, unless it is still connecting.
    private static let startTime = Duration.seconds(1)
    private static let interval = Duration.seconds(2)
    /// Fewer handshakes free too little to be worth walking the heap.
    private static let handshakeThreshold = 16

    let metrics: Metrics

    /// Runs until cancelled.
    func run() async {
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

    mutating func isWorthReturning(_ bytes: Int) -> Bool {
        least = min(least, bytes)
        return bytes - least >= Self.threshold
    }

    mutating func returned(_ bytes: Int) { least = bytes }
}

/// The resident code and constants of the program and its libraries.
enum ProgramCode {
    /// Releases all of it; code that runs afterwards is mapped again, 64 KB at a time, without reading the disk.
    ///
    /// The start reads the configuration, searches Swift's tables of types, and initialises a dozen libraries, with
    /// code that never runs again: 30 of 53 MB, measured under load. Until memory is short, these pages count in the
    /// figure that alerts use (`VmRSS`, `process_resident_memory_bytes`). A fault for each 64 KB used again costs a
    /// microsecond; a breakpoint or uprobe set before is lost with its page.
    ///
    /// - Returns: The bytes that code and constants span, resident or not.
    @discardableResult
    static func release() -> Int { upstream_release_code() }
}
