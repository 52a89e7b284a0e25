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
            (self.key, self.value, self.flag) = (key, value, flag)
        }
    }

    package struct Result: Sendable {
        package var configuration: WorkerConfiguration
        /// Working settings that are probably mistakes.
        package var warnings: [ConfigurationProblem]
        package var path: String
        /// The folder of this unit's systemd credentials, or nil.
        package var credentials: String?
        /// Every key with a given value, from any source; secrets are in files, not here.
        var given: [String: String] = [:]
    }

    package static let defaultPath = "/etc/upstream-worker/config.yaml"
    private static let fileLimit = 1 << 20
    /// Variables that look like overrides but are not.
    package static let reserved: Set<String> = ["UPSTREAM_CONFIG"]

    package var environment: [String: String]
    package var overrides: [Override]

    package init(environment: [String: String], overrides: [Override] = []) {
        (self.environment, self.overrides) = (environment, overrides)
    }

    /// Reads `--config`, else `$UPSTREAM_CONFIG`, else ``defaultPath``; outside `parts` checks only the keys' names.
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

    /// Reads a configuration from its text; `path` is its name in problems.
    package func read(
        yaml: String,
        path: String,
        needsSenders: Bool = true,
        parts: Set<ConfigurationPart> = .worker
    ) throws(ConfigurationError) -> Result {
        let (reading, configuration, problems) = try self.read(yaml, path, needsSenders: needsSenders, parts)
        guard problems.isEmpty else { throw ConfigurationError(kind: .invalid, problems: problems) }
        return Result(
            configuration: configuration,
            warnings: ConfigurationProblem.sorted(reading.warnings),
            path: path,
            credentials: environment["CREDENTIALS_DIRECTORY"],
            given: reading.tree.given
        )
    }

    private func read(
        _ yaml: String,
        _ path: String,
        areFilesChecked: Bool = true,
        needsSenders: Bool,
        _ parts: Set<ConfigurationPart>
    ) throws(ConfigurationError) -> (ConfigurationReading, WorkerConfiguration, problems: [ConfigurationProblem]) {
        let files = ConfigurationFiles(credentials: environment["CREDENTIALS_DIRECTORY"], areChecked: areFilesChecked)
        let reading = ConfigurationReading(try tree(yaml: yaml, path: path), describes: false, files: files)
        let scope = ConfigurationScope(reading)
        let configuration = WorkerConfiguration(scope, needsSenders: needsSenders, parts: parts)
        let problems = reading.problems + UnknownKeys(reading, known: Self.keys).problems
        return (reading, configuration, ConfigurationProblem.sorted(problems))
    }

    /// Every key's value and origin, and the problems; named files are not read, as not all who look may read them.
    package func effective(file: String?) throws(ConfigurationError) -> EffectiveConfiguration {
        let (yaml, path) = try text(file: file)
        let parts = Set(ConfigurationPart.allCases)
        let (reading, _, problems) = try read(yaml, path, areFilesChecked: false, needsSenders: false, parts)
        return EffectiveConfiguration(path: path, values: reading.values, problems: problems)
    }

    /// Merges the file, the environment and the flags; of a file that is not YAML nothing else is reported.
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

    package static let keys = declarations.compactMap { declaration -> ConfigurationKey? in
        if case .key(let key) = declaration { key } else { nil }
    }

    /// All keys and sections, in the order in which they are read.
    static let declarations: [ConfigurationDeclaration] = {
        let files = ConfigurationFiles(credentials: nil)
        let reading = ConfigurationReading(ConfigurationTree(), describes: true, files: files)
        let parts = Set(ConfigurationPart.allCases)
        _ = WorkerConfiguration(ConfigurationScope(reading), needsSenders: false, parts: parts)
        return reading.declarations
    }()
}

/// The configuration as a command would use it: every key with its value and origin.
package struct EffectiveConfiguration: Sendable {
    package var path: String
    package var values: [EffectiveValue]
    /// Problems of the values; named files were not checked.
    package var problems: [ConfigurationProblem]
}

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
