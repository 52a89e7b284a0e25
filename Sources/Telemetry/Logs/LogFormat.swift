import Glibc

/// How log lines look.
package enum LogFormat: Sendable, Equatable {
    /// One JSON object a line, for programs.
    case json
    /// One short line, for people.
    case text(colours: Bool)

    /// Text where stderr is a terminal, JSON otherwise; colours unless `NO_COLOR` is set (https://no-color.org).
    package static var automatic: LogFormat {
        isatty(STDERR_FILENO) == 1 ? .text(colours: coloursWanted) : .json
    }

    /// Text, coloured where stderr is a terminal and `NO_COLOR` isn't set.
    package static var terminalText: LogFormat {
        .text(colours: isatty(STDERR_FILENO) == 1 && coloursWanted)
    }

    private static var coloursWanted: Bool {
        guard let value = getenv("NO_COLOR") else { return true }
        return value.pointee == 0
    }
}
