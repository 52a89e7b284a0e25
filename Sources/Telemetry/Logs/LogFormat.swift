import Glibc

package enum LogFormat: Sendable, Equatable {
    /// One JSON object a line, for programs.
    case json
    /// One short line, for people.
    case text(colours: Bool)

    /// Text if stderr is a terminal, else JSON; coloured unless `NO_COLOR` is set (https://no-color.org).
    package static var automatic: LogFormat {
        isatty(STDERR_FILENO) == 1 ? .text(colours: coloursWanted) : .json
    }

    /// Text, coloured if stderr is a terminal and `NO_COLOR` isn't set.
    package static var terminalText: LogFormat {
        .text(colours: isatty(STDERR_FILENO) == 1 && coloursWanted)
    }

    private static var coloursWanted: Bool { wantsColours(getenv("NO_COLOR").map { String(cString: $0) }) }

    /// Whether a terminal gets colours, by the value of `NO_COLOR`: unless it is set and not empty.
    package static func wantsColours(_ variable: String?) -> Bool { variable?.isEmpty ?? true }
}
