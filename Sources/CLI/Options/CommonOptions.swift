import ArgumentParser
import Foundation
import Worker

/// The options that every command with a configuration has.
struct CommonOptions: ParsableArguments {
    @Option(
        name: [.short, .long],
        help: "Configuration file. Default: $UPSTREAM_CONFIG, else \(ConfigurationLoader.defaultPath).",
        completion: .file(extensions: ["yaml", "yml"])
    )
    var config: String?

    @Option(
        name: .customLong("set"),
        help: ArgumentHelp(
            "Override a key of the configuration, for example --set log.level=debug.",
            valueName: "key=value"
        )
    )
    var overrides: [String] = []

    /// Reads the configuration, tells people what deserves a look, and refuses what is wrong.
    func load(needsSenders: Bool = true) throws -> ConfigurationLoader.Result {
        let loader = ConfigurationLoader(
            environment: ProcessInfo.processInfo.environment,
            overrides: try overrides.map { text in
                guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
                    throw CommandFailure(.usage, "--set takes key=value, not '\(text)'")
                }
                return ConfigurationLoader.Override(
                    key: String(text[..<equals]),
                    value: String(text[text.index(after: equals)...]),
                    flag: "--set"
                )
            }
        )
        let result = try loader.load(file: config, needsSenders: needsSenders)
        for warning in result.warnings { Console.message("warning: \(warning)") }
        return result
    }
}
