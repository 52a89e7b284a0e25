import CGlibc
import ServiceLifecycle
import Telemetry

/// Gives memory back to the system that only the beginning of many connections needed.
///
/// A TLS handshake takes some 30 KB that are free again once it is done, and where hundreds begin at once (at the start, or
/// because a server restarted) glibc keeps the most part of them: measured with 501 connections, 14 KB for each one.
struct MemoryRunner: Service {
    private static let interval = Duration.seconds(2)
    /// Fewer leave too little behind to be worth the walk through the heap.
    private static let many: Int = 16

    let metrics: Metrics

    func run() async {
        await cancelWhenGracefulShutdown {
            // The most that were on their way at once since memory was last given back.
            var most = 0
            var boundBefore = 0
            while (try? await Task.sleep(for: Self.interval)) != nil {
                let bound = total(.bound)
                let connecting = total(.connecting)
                most = max(most, connecting, bound - boundBefore)
                boundBefore = bound
                guard most >= Self.many, connecting == 0 else { continue }
                _ = malloc_trim(0)
                most = 0
            }
        }
    }

    private func total(_ state: ConnectionState) -> Int {
        metrics.senders.indices.reduce(0) { $0 + metrics.connections(sender: $1, state: state).value }
    }
}
