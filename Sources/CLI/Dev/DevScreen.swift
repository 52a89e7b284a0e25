import Synchronization

/// The live status of `dev`, which ends with the word that the run stops.
final class DevScreen: Sendable {
    private let console: Console
    private let block: Mutex<LiveBlock?>

    /// A screen on the console's stderr.
    init(_ console: Console) {
        self.console = console
        block = Mutex(LiveBlock(console, on: console.errors))
    }

    /// Shows the lines in the place of the ones before; nothing once the run stops.
    func show(_ lines: [String]) {
        block.withLock { $0?.show(lines) }
    }

    /// Says that the run stops, below the last status.
    func stop(_ message: String) {
        block.withLock { block in
            block = nil
            console.message(message)
        }
    }
}
