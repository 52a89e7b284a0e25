import Querying
import Vocabulary

/// Lines that are redrawn in place on a terminal, and printed one block after the other elsewhere.
final class LiveBlock {
    private let console: Console
    private let stream: Console.Stream
    private let isRedrawn: Bool
    private var height = 0

    /// A block on one of the console's streams.
    ///
    /// - Parameters:
    ///   - console: Where it is shown.
    ///   - stream: The stream.
    ///   - isRedrawn: Whether there is more than one picture; only a terminal redraws.
    init(_ console: Console, on stream: Console.Stream, isRedrawn: Bool = true) {
        (self.console, self.stream) = (console, stream)
        self.isRedrawn = isRedrawn && stream.isTerminal
    }

    /// Shows the lines, which are safe for terminals, in the place of the ones before.
    func show(_ lines: [String]) {
        var text = ""
        if isRedrawn, height > 0 { text = "\u{1B}[\(height)A\u{1B}[J" }
        // A line that the terminal wraps would make the block higher than it counts.
        let lines = isRedrawn ? lines.map { TerminalText.cut($0, to: console.messageWidth) } : lines
        for line in lines { text += line + "\n" }
        height = lines.count
        console.write(text, to: stream)
    }
}
