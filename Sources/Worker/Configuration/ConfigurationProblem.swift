/// Where a value or a problem stands.
package enum ConfigurationOrigin: Sendable, Equatable, CustomStringConvertible {
    /// A place in the file; lines and columns count from 1.
    case file(String, line: Int, column: Int)
    /// An environment variable.
    case environment(String)
    /// A flag of the command line.
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

    /// The line in the file; everything else sorts after all lines.
    fileprivate var line: Int {
        guard case .file(_, let line, _) = self else { return .max }
        return line
    }
}

/// An error or a warning about the configuration.
package struct ConfigurationProblem: Sendable, Equatable, CustomStringConvertible {
    /// Where it stands.
    package var origin: ConfigurationOrigin
    /// The key's path, for example `senders.0.host`; empty for the file as a whole.
    package var key: String
    /// What is wrong, and what would be right.
    ///
    /// Never holds a secret.
    package var message: String

    package var description: String {
        key.isEmpty ? "\(origin): \(message)" : "\(origin): \(key): \(message)"
    }

    /// The problems in the order of the file.
    static func sorted(_ problems: [ConfigurationProblem]) -> [ConfigurationProblem] {
        problems.enumerated()
            .sorted { ($0.element.origin.line, $0.offset) < ($1.element.origin.line, $1.offset) }
            .map(\.element)
    }
}

/// Why there is no configuration.
package struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    /// What failed.
    package enum Kind: Sendable {
        /// The configuration file that was asked for does not exist: exit code 66.
        case noInput
        /// Something in it is wrong: exit code 78.
        case invalid
    }

    /// What failed.
    package var kind: Kind
    /// Everything that is wrong, in the order of the file.
    package var problems: [ConfigurationProblem]

    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}
