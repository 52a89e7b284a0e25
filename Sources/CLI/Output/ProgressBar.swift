import Glibc
import Synchronization

/// How far something long is: one line on stderr, drawn again in its place; nothing where stderr is no terminal.
final class ProgressBar: Sendable {
    private let title: String
    private let isShown: Bool
    private let drawn = Mutex(ContinuousClock.now - .seconds(1))

    /// A bar with a title; nothing is drawn yet.
    init(_ title: String) {
        self.title = title
        isShown = isatty(STDERR_FILENO) == 1
    }

    /// Draws it, ten times a second at most.
    ///
    /// - Parameters:
    ///   - done: How much is done.
    ///   - total: How much there is; nil where nobody knows, and then there is no bar but a number.
    ///   - note: What else deserves the line.
    func show(_ done: Int64, of total: Int64?, _ note: String = "") {
        guard isShown else { return }
        let isDue = drawn.withLock { last in
            guard ContinuousClock.now - last >= .milliseconds(100) else { return false }
            last = .now
            return true
        }
        if isDue { Console.redraw(Self.line(title, done, of: total, note)) }
    }

    /// Takes the line away, so that what comes next begins at its start.
    func clear() {
        if isShown { Console.redraw("") }
    }

    /// The line's text.
    static func line(_ title: String, _ done: Int64, of total: Int64?, _ note: String) -> String {
        guard let total, total > 0 else { return [title, Amount.count(done), note].joined(separator: "  ") }
        let share = min(1, max(0, Double(done) / Double(total)))
        let full = Int(share * 30)
        let bar = "[" + String(repeating: "#", count: full) + String(repeating: ".", count: 30 - full) + "]"
        return [title, bar, "\(Int(share * 100)) %", note].filter { !$0.isEmpty }.joined(separator: "  ")
    }
}

/// Numbers as people read them.
enum Amount {
    /// A whole number with its digits in groups of three: `1,234,567`.
    static func count(_ number: Int64) -> String {
        let digits = String(number.magnitude)
        var text = ""
        for (place, digit) in digits.enumerated() {
            if place > 0, (digits.count - place) % 3 == 0 { text.append(",") }
            text.append(digit)
        }
        return number < 0 ? "-" + text : text
    }

    /// A size in bytes: `512 B`, `1.5 MiB`.
    static func bytes(_ number: Int64) -> String {
        guard number >= 1024 else { return "\(number) B" }
        var size = Double(number) / 1024
        var units = ["KiB", "MiB", "GiB", "TiB"][...]
        while size >= 1024, units.count > 1 {
            size /= 1024
            units = units.dropFirst()
        }
        return decimal(size) + " " + (units.first ?? "")
    }

    /// A number with one decimal below 100, and none from there on.
    static func decimal(_ number: Double) -> String {
        guard abs(number) < 99.95 else { return count(Int64(number.rounded())) }
        let tenths = Int64((number * 10).rounded())
        let text = "\(abs(tenths) / 10).\(abs(tenths) % 10)"
        return (tenths < 0 ? "-" : "") + (text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
    }

    /// A length of time in its largest units: `4 s`, `3 min`, `5.2 h`, `12 d`.
    static func time(_ seconds: Double) -> String {
        switch seconds {
        case ..<0: "0 s"
        case ..<90: decimal(seconds) + " s"
        case ..<5_400: decimal(seconds / 60) + " min"
        case ..<172_800: decimal(seconds / 3_600) + " h"
        default: decimal(seconds / 86_400) + " d"
        }
    }
}
