package import ConfigurationKeys
import Glibc

/// Reads the configuration from its file, the environment and flags.
package struct ConfigurationLoader: Sendable {
    /// A flag that overrides one key.
    package struct Override: Sendable, Equatable {
        package var key: String
        package var value: String
        /// The flag as given, for problems.
        package var flag: String

        package init(key: String, value: String, flag: String) {
            self.key = key
            self.value = value
            self.flag = flag
        }
    }

    /// A usable configuration.
    package struct Result: Sendable {
        package var configuration: WorkerConfiguration
        /// Working settings that are probably mistakes.
        package var warnings: [ConfigurationProblem]
        /// The file it was read from.
        package var path: String
        /// The folder of this unit's systemd credentials, or nil.
        package var credentials: String?
        /// Every key with a given value, from any source; secrets are in files, not here.
        var given: [String: String] = [:]
    }

    package static let defaultPath = "/etc/upstream-worker/config.yaml"
    /// The largest file accepted.
    private static let fileLimit = 1 << 20
    /// Variables that look like overrides but are not.
    package static let reserved: Set<String> = ["UPSTREAM_CONFIG"]

    package var environment: [String: String]
    package var overrides: [Override]

    package init(environment: [String: String], overrides: [Override] = []) {
        self.environment = environment
        self.overrides = overrides
    }

    /// Reads the configuration of `--config`, else `$UPSTREAM_CONFIG`, else ``defaultPath``.
    ///
    /// - Parameters:
    ///   - file: The argument of `--config`, if any.
    ///   - needsSenders: Whether a configuration without senders is an error.
    ///   - parts: The parts to read; in the others only the names of keys are checked.
    /// - Returns: The configuration, with warnings.
    /// - Throws: ``ConfigurationError`` with every problem found.
    package func load(
        file: String?,
        needsSenders: Bool = true,
        parts: Set<ConfigurationPart> = .worker
    ) throws(ConfigurationError) -> Result {
        let (yaml, path) = try text(file: file)
        return try read(yaml: yaml, path: path, needsSenders: needsSenders, parts: parts)
    }

    private func text(file: String?) throws(ConfigurationError) -> (yaml: String, path: String) {
        let path = file ?? environment["UPSTREAM_CONFIG"] ?? Self.defaultPath
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try ConfigurationFiles.read(path, atMost: Self.fileLimit)
        } catch {
            var hint =
                file == nil && environment["UPSTREAM_CONFIG"] == nil
                ? "; name another with --config FILE or $UPSTREAM_CONFIG" : ""
            if error.number == EACCES { hint = "; run this as a user who may read it (sudo -u upstream-worker …)" }
            let problem = ConfigurationProblem(origin: .absent, key: "", message: error.message + hint)
            throw ConfigurationError(kind: error.isMissing ? .noInput : .invalid, problems: [problem])
        }
        guard let yaml = String(validating: bytes, as: UTF8.self) else {
            let origin = ConfigurationOrigin.file(path, line: 1, column: 1)
            throw ConfigurationError(
                kind: .invalid,
                problems: [.init(origin: origin, key: "", message: "is not UTF-8 text")]
            )
        }
        return (yaml, path)
    }

    /// Reads a configuration from its text.
    ///
    /// - Parameters:
    ///   - yaml: The text.
    ///   - path: The file's name in problems.
    ///   - needsSenders: Whether a configuration without senders is an error.
    ///   - parts: The parts to read; in the others only the names of keys are checked.
    /// - Returns: The configuration, with warnings.
    /// - Throws: ``ConfigurationError`` with every problem found.
    package func read(
        yaml: String,
        path: String,
        needsSenders: Bool = true,
        parts: Set<ConfigurationPart> = .worker
    ) throws(ConfigurationError) -> Result {
        let files = ConfigurationFiles(credentials: environment["CREDENTIALS_DIRECTORY"])
        let reading = ConfigurationReading(try tree(yaml: yaml, path: path), describes: false, files: files)
        let scope = ConfigurationScope(reading)
        let configuration = WorkerConfiguration(scope, needsSenders: needsSenders, parts: parts)
        let problems = reading.problems + UnknownKeys(reading, known: Self.keys).problems
        guard problems.isEmpty else {
            throw ConfigurationError(kind: .invalid, problems: ConfigurationProblem.sorted(problems))
        }
        return Result(
            configuration: configuration,
            warnings: ConfigurationProblem.sorted(reading.warnings),
            path: path,
            credentials: files.credentials,
            given: reading.tree.given
        )
    }

    /// Every key with its value and origin, in the order of the table, and the problems.
    ///
    /// Named files are not read, so that the configuration can be shown to those who may not read them.
    ///
    /// - Parameter file: The argument of `--config`, if any.
    /// - Returns: The values and the problems.
    /// - Throws: ``ConfigurationError`` if the file can't be read, or is not YAML.
    package func effective(file: String?) throws(ConfigurationError) -> EffectiveConfiguration {
        let (yaml, path) = try text(file: file)
        let files = ConfigurationFiles(credentials: environment["CREDENTIALS_DIRECTORY"], areChecked: false)
        let reading = ConfigurationReading(try tree(yaml: yaml, path: path), describes: false, files: files)
        let parts = Set(ConfigurationPart.allCases)
        _ = WorkerConfiguration(ConfigurationScope(reading), needsSenders: false, parts: parts)
        let problems = reading.problems + UnknownKeys(reading, known: Self.keys).problems
        return EffectiveConfiguration(
            path: path,
            values: reading.values,
            problems: ConfigurationProblem.sorted(problems)
        )
    }

    /// Merges the file, the environment and the flags.
    ///
    /// A file that is not YAML is the only problem reported: nothing is known about what is missing.
    private func tree(yaml: String, path: String) throws(ConfigurationError) -> ConfigurationTree {
        var tree = ConfigurationTree()
        tree.merge(yaml: yaml, path: path)
        guard tree.isReadable else { throw ConfigurationError(kind: .invalid, problems: tree.problems) }
        let names = environment.keys.filter {
            $0.hasPrefix("UPSTREAM_") && !Self.reserved.contains($0) && !ServiceLink.isName($0)
        }
        for name in names.sorted(by: Self.precedes) {
            tree.override(Self.key(of: name), environment[name] ?? "", origin: .environment(name))
        }
        for flag in overrides {
            tree.override(flag.key, flag.value, origin: .flag(flag.flag))
        }
        return tree
    }

    /// `UPSTREAM_SENDERS__0__HOST` → `senders.0.host`.
    private static func key(of name: String) -> String {
        name.dropFirst("UPSTREAM_".count).lowercased().split(separator: "__", omittingEmptySubsequences: false)
            .joined(separator: ".")
    }

    /// Orders variables for merging: list elements by index, so that lists grow without gaps.
    private static func precedes(_ left: String, _ right: String) -> Bool {
        for (one, other) in zip(key(of: left).split(separator: "."), key(of: right).split(separator: "."))
        where one != other {
            guard let one = Int(one), let other = Int(other) else { return one < other }
            return one < other
        }
        return left < right
    }

    /// All keys, in the order of the table.
    package static var keys: [ConfigurationKey] { description.keys }

    /// All keys and sections.
    static let description: ConfigurationDescription = {
        let reading = ConfigurationReading(
            ConfigurationTree(),
            describes: true,
            files: ConfigurationFiles(credentials: nil)
        )
        let parts = Set(ConfigurationPart.allCases)
        _ = WorkerConfiguration(ConfigurationScope(reading), needsSenders: false, parts: parts)
        return ConfigurationDescription(keys: reading.keys, sections: reading.sections)
    }()
}

/// All keys and sections, in the order in which they are read.
struct ConfigurationDescription: Sendable {
    var keys: [ConfigurationKey]
    var sections: [ConfigurationSection]
}

/// The configuration as a command would use it: every key with its value and origin.
package struct EffectiveConfiguration: Sendable {
    package var path: String
    /// The values, in the order of the table.
    package var values: [EffectiveValue]
    /// Problems of the values; named files were not checked.
    package var problems: [ConfigurationProblem]
}

/// Why a configuration can't be used.
package struct ConfigurationError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// The configuration file does not exist: exit code 66.
        case noInput
        /// The configuration has errors: exit code 78.
        case invalid
    }

    package var kind: Kind
    /// All problems, in the order of the file.
    package var problems: [ConfigurationProblem]

    package var description: String {
        problems.map(\.description).joined(separator: "\n")
    }
}
