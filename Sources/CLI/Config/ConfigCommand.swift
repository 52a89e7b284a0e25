import ArgumentParser
import ConfigurationKeys
import Resources
import UpstreamConfiguration
import Vocabulary

struct ConfigCommand: DescribedCommand {
    static let manual = """
        config: Writes, shows and describes the configuration.
          upstream-worker config init worker.yaml
          upstream-worker config show --changed
          upstream-worker config env --json
          upstream-worker config schema > config.schema.json
        """
    static let subcommands: Subcommands = [
        ConfigInit.self, ConfigShow.self, ConfigEnv.self, ConfigSchema.self, ConfigReference.self,
    ]
}

struct ConfigShow: ProgramCommand {
    static let manual = """
        show: Shows every key's value and where it comes from: default, file, variable or flag.
          upstream-worker config show
          upstream-worker config show --changed
          upstream-worker config show senders.0 --json
          UPSTREAM_LOG__LEVEL=debug upstream-worker config show log

        Secrets are never shown: the configuration holds the names of their files only, and a password in a URL is \
        masked. The files are not looked at. Whatever is wrong is reported on stderr, and the exit code is then 78.
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "Only this key, or the keys of this section.") var key: String?
    @Flag(help: "Only what is not the default.") var changed = false
    @OptionGroup var format: ListOptions

    func run(in context: CommandContext) async throws {
        let effective = try options.loader(context).effective(file: options.config)
        let values = effective.values.filter { value in
            (key.map { value.key == $0 || value.key.hasPrefix($0 + ".") } ?? true) && !(changed && value.isDefault)
        }
        if values.isEmpty, let key, !effective.values.contains(where: { $0.key.hasPrefix(key) }) {
            let near = Suggestion.nearest(to: key, among: effective.values.map(\.key).filter { $0 != key })
            throw CommandFailure(.usage, "no key '\(key)'" + (near.map { "; did you mean '\($0)'?" } ?? ""))
        }
        let list = RowList<EffectiveValue>(
            none: "every key has its default",
            columns: [.init("key"), .init("value", minimum: 16), .init("source", minimum: 12, dropOrder: 1)],
            cells: { [$0.key, Self.text($0), $0.source] },
            texts: { [$0.key, $0.value == nil ? nil : Self.text($0), Self.kind($0.origin)] },
            json: { Self.json($0).json(isForTerminal: $1) }
        )
        try context.console.show(values, format, list, piped: .table)
        guard effective.problems.isEmpty else {
            let lines = effective.problems.map(\.description)
            let count = lines.count == 1 ? "1 problem" : "\(lines.count) problems"
            throw CommandFailure(.configuration, (lines + ["\(count) found."]).joined(separator: "\n"))
        }
    }

    private static func text(_ value: EffectiveValue) -> String {
        switch value.value {
        case .text(let text): text
        case .list(let list): list.isEmpty ? "none" : list.joined(separator: ", ")
        case nil: value.note.isEmpty ? "-" : "(\(value.note.filter { $0 != "`" }))"
        }
    }

    private static func json(_ value: EffectiveValue) -> JSONObject {
        let shown: any ShownValue =
            switch value.value {
            case .text(let text): text
            case .list(let list): list
            case nil: String?.none
            }
        var json: JSONObject = ["key": value.key, "value": shown, "source": kind(value.origin)]
        switch value.origin {
        case .file(let path, let line, _): json.add(["file": path, "line": line])
        case .environment(let name): json.add("variable", name)
        case .flag(let name): json.add("flag", name)
        case .absent: break
        }
        return json
    }

    private static func kind(_ origin: ConfigurationOrigin) -> String {
        switch origin {
        case .file: "file"
        case .environment: "environment"
        case .flag: "flag"
        case .absent: "default"
        }
    }
}

struct ConfigEnv: ProgramCommand {
    static let manual = """
        env: Lists the environment variables, with default and meaning.
          upstream-worker config env
          upstream-worker config env retention
          upstream-worker config env --json

        A variable overrides the file's key, and a flag overrides the variable. N stands for an element's number, \
        from 0: UPSTREAM_SENDERS__0__HOST.
        """

    @Argument(help: "Only variables whose name or key contains this.") var part: String?
    @OptionGroup var format: ListOptions

    fileprivate struct Row {
        var name: String
        var key: String?
        var type: String
        var standard: String?
        var meaning: String
    }

    func run(in context: CommandContext) async throws {
        let rows = Self.rows.filter { row in
            guard let part = part?.lowercased() else { return true }
            return row.name.lowercased().contains(part) || row.key?.contains(part) == true
        }
        guard !rows.isEmpty else {
            throw CommandFailure(.negative, "no variable's name contains '\(part ?? "")'")
        }
        try context.console.show(rows, format, RowList(none: "no variables match"), piped: .table)
    }

    /// Variables without a key first.
    private static var rows: [Row] {
        let others: [(String, String, String?, String)] = [
            (
                "UPSTREAM_CONFIG", "file", ConfigurationLoader.defaultPath,
                "The configuration file, where --config names none."
            ),
            (
                "CREDENTIALS_DIRECTORY", "folder", nil,
                "Where files that are named without a slash are: systemd's credentials (LoadCredential=)."
            ),
            ("PGHOST, PGUSER, …", "text", nil, "libpq's variables apply where database.url leaves something open."),
            ("NO_COLOR", "text", nil, "Where it is set, nothing is coloured."),
        ]
        let keys = ConfigurationLoader.keys.map { key in
            Row(
                name: key.environment,
                key: key.path,
                type: plain(key.type),
                standard: key.defaultValue.isEmpty ? nil : plain(key.defaultValue),
                meaning: plain(key.meaning)
            )
        }
        return others.map { Row(name: $0.0, key: nil, type: $0.1, standard: $0.2, meaning: $0.3) } + keys
    }

    /// The text without Markdown's backticks.
    private static func plain(_ text: String) -> String { text.filter { $0 != "`" } }
}

extension ConfigEnv.Row: ShownResource {
    static let resource = "Variable"
    static let fields: [Field<ConfigEnv.Row>] = [
        Field("variable", "variable") { $0.name },
        Field("key") { $0.key },
        Field("type") { $0.type },
        Field("default", .init("default", minimum: 12, dropOrder: 1)) {
            $0.standard
        } cell: {
            $0.standard ?? ""
        },
        Field("meaning", .init("meaning", minimum: 24)) { $0.meaning },
    ]
}

struct ConfigSchema: ProgramCommand {
    static let manual = """
        schema: Prints the configuration file's JSON Schema (draft 2020-12).
          upstream-worker config schema > config.schema.json

        Editors with the YAML language server complete and check a file whose first line is:
          # yaml-language-server: $schema=config.schema.json
        """

    func run(in context: CommandContext) async throws {
        for line in JSONIndent.lines(ConfigurationSchema.object.json()) { context.console.data(line) }
    }
}

struct ConfigReference: ProgramCommand {
    static let manual = """
        reference: Prints docs/configuration.md.
          upstream-worker config reference > docs/configuration.md
        """
    static let isShown = false

    func run(in context: CommandContext) async throws {
        context.console.data(ConfigurationReference.page)
    }
}
