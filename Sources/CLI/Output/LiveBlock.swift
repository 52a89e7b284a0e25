import Vocabulary

/// Lines that are redrawn in place on a terminal, and appended elsewhere.
final class LiveBlock {
    private let console: Terminal
    private let stream: Terminal.Stream
    private let isRedrawn: Bool
    private var height = 0

    /// Makes a block; `isRedrawn` says whether to show it more than once, which only a terminal redraws.
    init(_ console: Terminal, on stream: Terminal.Stream, isRedrawn: Bool = true) {
        (self.console, self.stream) = (console, stream)
        self.isRedrawn = isRedrawn && stream.isTerminal
    }

    /// Replaces the displayed lines; they must be safe for terminals.
    func show(_ lines: [String]) {
        var text = ""
        if isRedrawn, height > 0 { text = "\u{1B}[\(height)A\u{1B}[J" }
        // A line wrapped by the terminal would make the block higher than counted.
        let lines = isRedrawn ? lines.map { TerminalText.cut($0, to: console.messageWidth) } : lines
        for line in lines { text += line + "\n" }
        height = lines.count
        console.write(text, to: stream)
    }
}
