import ArgumentParser
import Querying
import Vocabulary
import Worker

/// `quarantine show`.
struct QuarantineShow: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows one quarantined stanza as text with its odd bytes escaped; exit code 1 where there is none.",
        discussion: """
            What looks like a registration token is masked unless --reveal is given. Such a stanza is malformed, so a
            token may stand where nobody looks for it: treat the output as a secret all the same.
            """
    )

    @OptionGroup var options: CommonOptions
    @Argument(help: "Its id, as `quarantine list` shows it.")
    var id: Int64
    @Flag(help: "The stanza's bytes as they came and nothing else.")
    var raw = false
    @Flag(help: "One JSON array instead of text; with --reveal the stanza is in base64.")
    var json = false
    @Flag(help: "Don't mask what looks like a registration token.")
    var reveal = false
    @OptionGroup var reading: ReadOptions

    func run() async throws {
        guard !raw || !json else { throw CommandFailure(.usage, "--raw and --json: give one of them") }
        var query = QuarantineQuery()
        query.id = id
        query.hasStanzas = true
        query.limit = 1
        let chosen = query
        let rows = try await options.withReader(timeout: reading.timeout.microseconds) { try await chosen.rows($0) }
        guard let row = rows.first else { throw CommandFailure(.negative, "no quarantined stanza has this id") }
        if raw {
            guard !Screen.isTerminal else {
                throw CommandFailure(.usage, "--raw writes a stranger's bytes: send them to a file or a program")
            }
            return try ExportFile.standardOutput.write(row.stanza)
        }
        if json {
            var output = RowOutput(.json, tokens: reveal)
            try output.append(object: row.json(verbatim: reveal, isForTerminal: Screen.isTerminal))
            return try output.finish()
        }
        let pairs = [
            ("id", String(row.id)), ("received_at", ShownTime.full(row.receivedAt)),
            ("last_seen_at", ShownTime.full(row.lastSeenAt)), ("times_seen", String(row.timesSeen)),
            ("sender_id", row.senderID), ("message_id", row.messageID ?? "-"), ("reason", row.reason),
            ("detail", row.detail), ("stanza", Amount.bytes(row.byteCount)),
        ]
        for (name, value) in pairs { Console.data(DetailText.pair(name, value)) }
        Console.data("  " + TerminalText.escape(bytes: reveal ? row.stanza : StanzaMask.mask(row.stanza)))
    }
}
