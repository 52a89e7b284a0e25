import ArgumentParser
import MessageStore
import Postgres
import Probing
import Querying
import Replaying
import Resources
import UpstreamConfiguration
import Vocabulary
import Worker
import XMPP

struct QuarantineCommand: DescribedCommand {
    static let manual = """
        quarantine: Shows, exports, dismisses and retries stanzas that could not be stored as messages.
          upstream-worker quarantine list --reason category_unusable --since 1d
          upstream-worker quarantine show 17
          upstream-worker quarantine show 17 --raw | xxd | less
          upstream-worker quarantine export --since 7d > odd.ndjson
          upstream-worker quarantine dismiss 17
          upstream-worker quarantine retry 17   # where the reason has gone
        """
    static let subcommands: Subcommands = [
        ListCommand<QuarantineRow>.self, QuarantineShow.self, QuarantineExport.self, QuarantineDismiss.self,
        QuarantineRetry.self,
    ]
}

extension QuarantineRow: ListedRow {
    typealias Options = QuarantineFilter

    static let most = 10_000
    static let none = "no quarantined stanzas match"
    static let manual = """
        list: Shows quarantined stanzas without their bytes, the latest first.
          upstream-worker quarantine list --since 1d
          upstream-worker quarantine list --reason category_unusable --json
          upstream-worker quarantine list --columns id,reason,message_id
        """

    var cursor: Int64 { id }

    static func page(_ asked: ListRequest<Self>, _ connection: PostgresConnection) async throws -> [Self] {
        var query = asked.filter
        (query.cursor, query.limit) = (asked.cursor, asked.limit)
        return try await query.rows(connection)
    }
}

struct QuarantineShow: ProgramCommand {
    static let manual = """
        show: Shows one quarantined stanza as text with unprintable bytes escaped; exit code 1 if there is none.
          upstream-worker quarantine show 17
          upstream-worker quarantine show 17 --raw | xxd | less

        Everything that looks like a registration token is masked unless --reveal is given. The stanza is malformed,
        so a token may be in an unexpected place: treat the output as a secret all the same.
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "Its id, as `quarantine list` shows it.") var id: Int64
    @Flag(help: "Print only the stanza's bytes, unchanged.") var raw = false
    @Flag(help: "One JSON array instead of text; with --reveal the stanza is in base64.") var json = false
    @Flag(help: "Do not mask registration tokens.") var reveal = false
    @OptionGroup var reading: ReadOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        guard !raw || !json else { throw CommandFailure(.usage, "give only one of --raw and --json") }
        let rows = try await options.withReader(context, timeout: reading.timeout.microseconds) { connection in
            var query = QuarantineQuery()
            (query.id, query.hasStanzas, query.limit) = (id, true, 1)
            return try await query.rows(connection)
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
            return try console.show(json: rows.map { $0.shown(to: sight) })
        }
        console.facts(FactList(row.facts.filter { !$0.name.hasPrefix("stanza_") }, nameWidth: MessageText.nameWidth))
        console.data("  " + TerminalText.escape(bytes: reveal ? row.stanza.bytes : StanzaMask.mask(row.stanza.bytes)))
    }
}

struct QuarantineExport: ProgramCommand {
    static let manual = """
        export: Writes quarantined stanzas as NDJSON to stdout, the oldest first.
          upstream-worker quarantine export --since 7d > odd.ndjson
          upstream-worker quarantine export --with-tokens |
            jq -r .stanza_base64 | head -1 | base64 -d

        Without --with-tokens `stanza_masked` is the stanza as text, with everything that looks like a token masked; with
        it `stanza_base64` is the stanza's bytes, unchanged. --after continues after an id.
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: QuarantineFilter
    @Flag(help: "Write the stanzas unchanged, with registration tokens.") var withTokens = false
    @Option(help: .value("id", "Continue after this id.")) var after: Int64?

    func run(in context: CommandContext) async throws {
        let asked = try filter.asked()
        try await options.withReader(context, timeout: nil) { connection in
            var query = try await asked.judged(connection)
            (query.order, query.hasStanzas, query.cursor) = (.oldestFirst, true, after)
            (query.limit, query.byteLimit) = (1_000, 4 << 20)
            let sight = Sight(tokens: withTokens, payloads: true)
            var output = RowOutput(.ndjson, tokens: withTokens, to: context.console)
            while true {
                let page = try await query.next(connection)
                for row in page.rows {
                    try output.append(object: row.shown(to: sight).json(isForTerminal: output.isForTerminal))
                }
                guard page.isFull else { return }
            }
        }
    }
}

/// Which stanzas an action takes: one, what a filter selects, or all.
struct QuarantineAction: ParsableArguments {
    @OptionGroup var options: CommonOptions
    @Argument(help: "Its id, as `quarantine list` shows it; without one, all that the filter selects.") var id: Int64?
    @OptionGroup var filter: QuarantineFilter
    @Flag(help: "All of them; needed where no filter is given.") var all = false
    @Flag(help: "Change nothing; only say what would be done.") var dryRun = false
    @Flag(help: "Do not ask for confirmation, which more than 100 need.") var yes = false
    @Option(help: "Why, for the audit trail.") var why: String?

    /// Acts on the stanzas, whose number is known, unless there are none.
    func perform(
        _ verb: String,
        in context: CommandContext,
        _ act: (PostgresConnection, QuarantineQuery, Int) async throws -> Void
    ) async throws {
        let asked = try filter.asked()
        guard asked.filter.state == nil else {
            throw CommandFailure(.usage, "--state selects nothing that can be acted on: leave it out")
        }
        guard [id != nil, !asked.isEmpty, all].count(where: \.self) == 1 else {
            throw CommandFailure(.usage, "give an id, or a filter (--reason, --sender, --since, …), or --all")
        }
        try await options.withConnection(context) { connection in
            var chosen = try await asked.judged(connection)
            chosen.id = id
            // What comes meanwhile is not part of it.
            if id == nil { chosen.seenBy = try await connection.databaseTime() }
            let total = try await chosen.count(connection)
            guard total > 0 || id == nil else {
                throw CommandFailure(.negative, "no quarantined stanza has this id: `quarantine list` shows them")
            }
            if !dryRun { try context.console.confirmMany(total, "\(verb) \(Amount.count(total)) stanzas?", yes: yes) }
            try await act(connection, chosen, total)
        }
    }
}

struct QuarantineDismiss: ProgramCommand {
    static let manual = """
        dismiss: Takes stanzas off the list until they come again; their bytes are kept.
          upstream-worker quarantine dismiss 17 --why "an old app"
          upstream-worker quarantine dismiss --reason category_unusable --until 1d
          upstream-worker quarantine dismiss --all --dry-run

        Asks before it dismisses more than 100. `quarantine list --state dismissed` shows them. --reason selects by the \
        stanzas' reason; --why is yours, for the audit trail.
        """

    @OptionGroup var action: QuarantineAction

    func run(in context: CommandContext) async throws {
        let console = context.console
        try await action.perform("Dismiss", in: context) { connection, chosen, total in
            guard !action.dryRun else { return console.message("would dismiss \(total); nothing was changed") }
            let act = BulkAction.Act.dismiss(chosen.condition, "quarantine" + chosen.description)
            let bulk = BulkAction(act, total: total, by: .command(action.why))
            let done = total > 0 ? try await bulk.run(over: connection, "dismissed", console) : 0
            console.message("dismissed \(done)")
        }
    }
}

struct QuarantineRetry: ProgramCommand {
    static let manual = """
        retry: Judges stanzas again, and stores and delivers those that are messages by now.
          upstream-worker quarantine retry 17 --why "the sender takes events now"
          upstream-worker quarantine retry --reason category_unusable --dry-run

        For stanzas whose reason has gone: by a new version, or by what the configuration says of their sender. What is \
        stored counts as received now, and leaves the list; what is stored already is a duplicate or a conflict. Nothing \
        is acked. A stanza that was too large for its ack is one if its server, which is asked, takes longer acks by now. \
        The others stay, and the exit code is then 1; 75 where the database did not answer in time for some.
        """

    @OptionGroup var action: QuarantineAction
    @Flag(help: "One JSON object instead of text.") var json = false

    func run(in context: CommandContext) async throws {
        let (options, console) = (action.options, context.console)
        let loaded = try options.loader(context).load(file: options.config, needsSenders: true, parts: [.senders])
        let configuration = loaded.configuration
        let retry = StanzaRetry(
            try PostgresSettings(url: configuration.database.url),
            senders: configuration.senders.enumerated().map { StreamSettings($1, index: $0) },
            limits: configuration.limits
        ) { await ProbeSequence.limits(configuration, index: $0) }
        try await action.perform("Try", in: context) { connection, chosen, total in
            let (author, isDryRun) = (AuditAuthor.command(action.why), action.dryRun)
            let bar = ProgressBar("retried", on: console)
            defer { bar.clear() }
            let report =
                total > 0
                ? try await retry.run(chosen, total: total, over: connection, by: author, isDryRun: isDryRun) {
                    bar.show(Int64($0), of: Int64(total))
                } : StanzaRetry.Report()
            bar.clear()
            try show(report, console)
            guard report.refused.isEmpty else {
                throw CommandFailure(report.isShortOfTime ? .temporaryFailure : .negative)
            }
        }
    }

    private func show(_ report: StanzaRetry.Report, _ console: Terminal) throws {
        if json { return try console.json(report) }
        let rows =
            [
                (action.dryRun ? "new" : "stored", report.stored), ("duplicates", report.duplicates),
                ("conflicts", report.conflicts),
            ]
        var facts = FactList(rows.map { ($0, Amount.count($1)) })
        for (why, count) in report.refused.sorted(by: { $0.key < $1.key }) {
            let ids = report.staying[why] ?? []
            let more = count > ids.count ? ", …" : ""
            facts.add(
                "stays: \(why)",
                "\(Amount.count(count)) (\(ids.map(String.init).joined(separator: ", "))\(more))"
            )
        }
        console.facts(facts)
    }
}
