package enum ConfigurationOrigin: Sendable, Equatable, CustomStringConvertible {
    /// A place in the file; lines and columns count from 1.
    case file(String, line: Int, column: Int)
    case environment(String)
    case flag(String)
    /// Nowhere: the key is missing.
    case absent

    package var description: String {
        switch self {
        case .file(let path, let line, let column): "\(path):\(line):\(column)"
        case .environment(let name): "environment \(name)"
        case .flag(let name): "flag \(name)"
        case .absent: "configuration"
        }
    }

    /// The line in the file; other origins sort last.
    fileprivate var line: Int {
        guard case .file(_, let line, _) = self else { return .max }
        return line
    }
}

package struct ConfigurationProblem: Sendable, Equatable, CustomStringConvertible {
    package var origin: ConfigurationOrigin
    /// The key's path, for example `senders.0.host`; empty for the file as a whole.
    package var key: String
    /// What is wrong, and what would be right; never contains a secret.
    package var message: String

    package init(origin: ConfigurationOrigin, key: String, message: String) {
        (self.origin, self.key, self.message) = (origin, key, message)
    }

    package var description: String {
        key.isEmpty ? "\(origin): \(message)" : "\(origin): \(key): \(message)"
    }

    package static func sorted(_ problems: [ConfigurationProblem]) -> [ConfigurationProblem] {
        problems.enumerated()
            .sorted { ($0.element.origin.line, $0.offset) < ($1.element.origin.line, $1.offset) }
            .map(\.element)
    }
}
