import ArgumentParser
import ConfigurationKeys
import UpstreamConfiguration
import Vocabulary

struct ConfigEnv: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "env",
        abstract: "Lists the environment variables, with default and meaning.",
        discussion: """
            Examples:
              upstream-worker config env
              upstream-worker config env retention
              upstream-worker config env --json

            A variable overrides the file's key, and a flag overrides the variable. N stands for an element's number, \
            from 0: UPSTREAM_SENDERS__0__HOST.
            """
    )

    @Argument(help: "Only variables whose name or key contains this.")
    var part: String?
    @OptionGroup var format: ListOptions

    private struct Row {
        var name: String
        var key: String
        var type: String
        var standard: String
        var meaning: String
    }

    func run(in context: CommandContext) async throws {
        let rows = Self.rows.filter { row in
            guard let part = part?.lowercased() else { return true }
            return row.name.lowercased().contains(part) || row.key.contains(part)
        }
        guard !rows.isEmpty else {
            throw CommandFailure(.negative, "no variable's name contains '\(part ?? "")'")
        }
        let list = RowList<Row>(
            none: "no variables match",
            columns: [
                .init("variable"), .init("default", minimum: 12, dropOrder: 1), .init("meaning", minimum: 24),
            ],
            cells: { [$0.name, $0.standard, $0.meaning] },
            texts: { [$0.name, $0.standard.isEmpty ? nil : $0.standard, $0.meaning] },
            json: { row, isForTerminal in
                var json = JSONWriter(isForTerminal: isForTerminal)
                json.beginObject()
                json.member("variable", row.name)
                json.member("key", row.key.isEmpty ? nil : row.key)
                json.member("type", row.type)
                json.member("default", row.standard.isEmpty ? nil : row.standard)
                json.member("meaning", row.meaning)
                json.endObject()
                return json.finish()
            }
        )
        try context.console.show(rows, format, list, piped: .table)
    }

    /// Variables without a key first.
    private static var rows: [Row] {
        let others = [
            (
                "UPSTREAM_CONFIG", "file", ConfigurationLoader.defaultPath,
                "The configuration file, where --config names none."
            ),
            (
                "CREDENTIALS_DIRECTORY", "folder", "",
                "Where files that are named without a slash are: systemd's credentials (LoadCredential=)."
            ),
            ("PGHOST, PGUSER, …", "text", "", "libpq's variables apply where database.url leaves something open."),
            ("NO_COLOR", "text", "", "Where it is set, nothing is coloured."),
        ]
        let keys = ConfigurationLoader.keys.map { key in
            Row(
                name: key.environment,
                key: key.path,
                type: plain(key.type),
                standard: plain(key.defaultValue),
                meaning: plain(key.meaning)
            )
        }
        return others.map { Row(name: $0.0, key: "", type: $0.1, standard: $0.2, meaning: $0.3) } + keys
    }

    /// The text without Markdown's backticks.
    private static func plain(_ text: String) -> String { text.filter { $0 != "`" } }
}
