import ArgumentParser
import Querying
import Resources

struct QuarantineExport: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Writes quarantined stanzas as NDJSON to stdout, the oldest first.",
        discussion: """
            Examples:
              upstream-worker quarantine export --since 7d > odd.ndjson
              upstream-worker quarantine export --with-tokens |
                jq -r .stanza_base64 | head -1 | base64 -d

            Without --with-tokens `stanza_masked` is the stanza as text, with everything that looks like a token masked; with
            it `stanza_base64` is the stanza's bytes, unchanged. --after continues after an id.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: QuarantineFilter
    @Flag(help: "Write the stanzas unchanged, with registration tokens.")
    var withTokens = false
    @Option(help: ArgumentHelp("Continue after this id.", valueName: "id"))
    var after: Int64?

    func run(in context: CommandContext) async throws {
        let asked = try filter.asked()
        try await options.withReader(context, timeout: nil) { connection in
            var query = try await asked.judged(connection)
            // A stanza has 256 KiB at most unless limits.stanza says more.
            (query.order, query.hasStanzas, query.limit, query.cursor) = (.oldestFirst, true, 100, after)
            let sight = Sight(tokens: withTokens, payloads: true)
            var output = RowOutput(.ndjson, tokens: withTokens, to: context.console)
            while true {
                let rows = try await query.rows(connection)
                for row in rows {
                    try output.append(object: row.shown(to: sight).json(isForTerminal: output.isForTerminal))
                }
                guard let last = rows.last, rows.count == query.limit else { return }
                query.cursor = last.id
            }
        }
    }
}
