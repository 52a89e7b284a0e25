import Synchronization

/// The live status of `dev`, until the run stops.
final class DevScreen: Sendable {
    private let console: Terminal
    private let block: Mutex<LiveBlock?>

    init(_ console: Terminal) {
        self.console = console
        block = Mutex(LiveBlock(console, on: console.errors))
    }

    /// Replaces the displayed lines; does nothing once the run stops.
    func show(_ lines: [String]) {
        block.withLock { $0?.show(lines) }
    }

    /// Prints that the run stops, below the last status.
    func stop(_ message: String) {
        block.withLock { block in
            block = nil
            console.message(message)
        }
    }
}
