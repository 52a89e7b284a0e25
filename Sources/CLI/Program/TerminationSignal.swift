import UnixSignals

/// Waits for SIGINT or SIGTERM, for commands that only have to stop.
enum TerminationSignal {
    /// Returns with the next of them, or when the task is cancelled.
    static func wait() async {
        for await _ in await UnixSignalsSequence(trapping: .sigterm, .sigint) { return }
    }
}
