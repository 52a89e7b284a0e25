import Foundation
import Glibc

/// Shows the status: a block that is drawn again in place on a terminal, a line now and then elsewhere.
final class DevScreen {
    private let isTerminal = isatty(STDERR_FILENO) == 1
    private var drawn = 0
    private var shown = 0

    /// How long to wait between two looks.
    var interval: Duration { isTerminal ? .milliseconds(250) : .seconds(1) }

    /// Shows the status.
    func show(_ status: DevStatus, elapsed: Int, total: Int?) {
        guard isTerminal else {
            Console.message(status.line)
            return
        }
        let lines = status.screen(elapsed: elapsed, total: total)
        var text = drawn > 0 ? "\u{1b}[\(drawn)A" : ""
        for line in lines { text += "\u{1b}[K" + line + "\n" }
        drawn = lines.count
        FileHandle.standardError.write(Data(text.utf8))
    }
}
