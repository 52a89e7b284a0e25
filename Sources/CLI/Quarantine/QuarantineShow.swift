import ArgumentParser
import Postgres
import Querying
import Resources
import Vocabulary

struct QuarantineShow: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one quarantined stanza as text with unprintable bytes escaped; exit code 1 if there is none.",
        discussion: """
            Examples:
              upstream-worker quarantine show 17
              upstream-worker quarantine show 17 --raw | xxd | less

            Everything that looks like a registration token is masked unless --reveal is given. The stanza is malformed,
            so a token may be in an unexpected place: treat the output as a secret all the same.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Its id, as `quarantine list` shows it.")
    var id: Int64
    @Flag(help: "Print only the stanza's bytes, unchanged.")
    var raw = false
    @Flag(help: "One JSON array instead of text; with --reveal the stanza is in base64.")
    var json = false
    @Flag(help: "Do not mask registration tokens.")
    var reveal = false
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        guard !raw || !json else { throw CommandFailure(.usage, "give only one of --raw and --json") }
        var query = QuarantineQuery()
        query.id = id
        query.hasStanzas = true
        query.limit = 1
        let chosen = query
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) {
            try await chosen.rows($0)
        }
        guard let row = rows.first else {
            throw CommandFailure(.negative, "no quarantined stanza has this id: `quarantine list` shows them")
        }
        if raw {
            guard !console.output.isTerminal else {
                throw CommandFailure(.usage, "--raw prints untrusted bytes: redirect them to a file or a program")
            }
            return try console.outputFile.write(row.stanza.bytes)
        }
        if json {
            let sight = Sight(tokens: reveal, payloads: true)
            return try console.show(rows) { $0.shown(to: sight).json(isForTerminal: $1) }
        }
        var facts = MessageText.facts()
        for (name, text) in row.facts where !name.hasPrefix("stanza_") { facts.add(name, text) }
        console.facts(facts)
        console.data("  " + TerminalText.escape(bytes: reveal ? row.stanza.bytes : StanzaMask.mask(row.stanza.bytes)))
    }
}
