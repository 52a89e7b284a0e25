import Glibc

/// Where `stats` shows its lines: each time in the place of the last where stdout is a terminal, else one block after the
/// other.
final class StatsScreen {
    private let isTerminal: Bool
    private var height = 0

    /// A screen; `isTerminal` tells whether anything is to be shown twice.
    init(isTerminal: Bool) {
        self.isTerminal = isTerminal && isatty(STDOUT_FILENO) == 1
    }

    /// Shows the lines.
    func show(_ lines: [String]) {
        guard isTerminal else { return Console.data(lines.joined(separator: "\n")) }
        // Up to where the last picture began, and everything below goes.
        let home = height > 0 ? "\u{1B}[\(height)A\u{1B}[J" : ""
        Console.data(home + lines.joined(separator: "\n"))
        height = lines.count
    }
}
