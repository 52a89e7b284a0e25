import Synchronization
import Vocabulary

/// The progress of a long task: one line on stderr, redrawn in place; nothing unless stderr is a terminal.
final class ProgressBar: Sendable {
    private let console: Terminal
    private let title: String
    private let isShown: Bool
    private let drawn = Mutex(ContinuousClock.now - .seconds(1))

    init(_ title: String, on console: Terminal) {
        self.console = console
        self.title = title
        isShown = console.errors.isTerminal
    }

    /// Draws it, at most ten times a second; without a known total, a number instead of a bar.
    func show(_ done: Int64, of total: Int64?, _ note: String = "") {
        guard isShown else { return }
        let isDue = drawn.withLock { last in
            guard ContinuousClock.now - last >= .milliseconds(100) else { return false }
            last = .now
            return true
        }
        if isDue { console.redraw(Self.line(title, done, of: total, note)) }
    }

    func clear() {
        if isShown { console.redraw("") }
    }

    static func line(_ title: String, _ done: Int64, of total: Int64?, _ note: String) -> String {
        guard let total, total > 0 else { return [title, Amount.count(done), note].joined(separator: "  ") }
        let bar = meter(Double(done) / Double(total), width: 30)
        return [title, bar, note].filter { !$0.isEmpty }.joined(separator: "  ")
    }

    /// A bar filled to a share between 0 and 1, with the percentage.
    static func meter(_ share: Double, width: Int) -> String {
        let share = min(1, max(0, share))
        let full = Int(share * Double(width))
        return "[" + String(repeating: "#", count: full) + String(repeating: ".", count: width - full) + "]  "
            + "\(Int(share * 100)) %"
    }
}

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
