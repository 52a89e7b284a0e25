import ArgumentParser
import UpstreamConfiguration
import Vocabulary

/// The options of every command that reads the configuration.
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

    /// Reads the configuration, and prints its warnings.
    ///
    /// - Parameters:
    ///   - context: The command's context.
    ///   - needsSenders: Whether a configuration without senders is an error.
    ///   - parts: What the command needs; files named by other parts are not read.
    /// - Throws: Everything that is wrong with it.
    /// - Returns: The configuration.
    func load(
        _ context: CommandContext,
        needsSenders: Bool = true,
        parts: Set<ConfigurationPart> = .worker
    ) throws -> ConfigurationLoader.Result {
        let result = try loader(context).load(file: config, needsSenders: needsSenders, parts: parts)
        for warning in result.warnings { context.console.message("warning: \(warning)") }
        return result
    }

    /// The configuration's loader, with the flags that override keys.
    ///
    /// - Throws: ``CommandFailure`` if a flag is not of the form `key=value`.
    func loader(_ context: CommandContext) throws -> ConfigurationLoader {
        ConfigurationLoader(
            environment: context.environment,
            overrides: try overrides.map { text in
                guard let equals = text.firstIndex(of: "="), equals != text.startIndex else {
                    throw CommandFailure(
                        .usage,
                        "--set takes key=value, for example --set log.level=debug, not '\(text)'"
                    )
                }
                return ConfigurationLoader.Override(
                    key: String(text[..<equals]),
                    value: String(text[text.index(after: equals)...]),
                    flag: "--set"
                )
            }
        )
    }
}
