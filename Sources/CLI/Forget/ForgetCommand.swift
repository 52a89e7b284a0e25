import ArgumentParser
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

struct ForgetCommand: ProgramCommand {
    static let manual = """
        forget: Erases one device: its messages, deliveries, dead letters, conflicts and quarantined stanzas.
          upstream-worker forget --token-file token.txt --dry-run
          upstream-worker forget --token-file token.txt
          upstream-worker forget --token-file token.txt --yes --json

        Only the hashes in the ledger stay, so that a redelivered copy is recognised and not stored again. Needs the \
        rights of the tables' owner. Safe to repeat. WAL, backups, replicas' archives and exports are not changed: \
        see docs/retention.md.
        """

    @OptionGroup var options: CommonOptions
    @Option(help: "File with the device's registration token and nothing else.", completion: .file())
    var tokenFile: String?
    @Option(help: .unlisted("What `messages list` calls it."), completion: .file()) var fromTokenFile: String?
    @Flag(help: "Only count what would be erased.") var dryRun = false
    @Flag(help: "Do not ask for confirmation.") var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON object instead of a table.") var json = false

    func run(in context: CommandContext) async throws {
        let console = context.console
        guard let file = tokenFile ?? fromTokenFile else {
            throw CommandFailure(.usage, "forget needs --token-file FILE: a token is never given as an argument")
        }
        let token = Array(try TokenFile.read(file, stdin: console.input.descriptor).rawValue.utf8)
        // VACUUM of a day's partition can be slow.
        try await options.withConnection(context, statementTimeout: 6 * 3_600_000) { connection in
            let erasure = Erasure(connection, token: token)
            let bar = ProgressBar("forget", on: console)
            if !dryRun {
                try console.confirm(
                    "Erase everything about the device \(erasure.deviceKey)? This cannot be undone.",
                    yes: yes,
                    because: "forget deletes (--dry-run only counts)"
                )
            }
            let counts: ErasureCounts
            do {
                defer { bar.clear() }
                counts =
                    dryRun
                    ? try await erasure.count { Self.show($0, bar) }
                    : try await erasure.run(by: reason.author) { Self.show($0, bar) }
            } catch let error as PostgresError where !dryRun && error.failureClass == .permission {
                throw CommandFailure(notOwner: error, may: "delete")
            }
            try print(counts, erasure, console)
        }
    }

    private static func show(_ progress: ErasureProgress, _ bar: ProgressBar) {
        switch progress {
        case .partition(let done, let all, let counts):
            bar.show(Int64(done), of: Int64(all), "days; \(Amount.count(counts.messages)) messages")
        case .quarantine(let id, let last, let counts):
            bar.show(id, of: last, "quarantine; \(Amount.count(counts.quarantine)) stanzas")
        case .vacuum(let table, let done, let all):
            bar.show(Int64(done), of: Int64(all), "VACUUM \(table)")
        }
    }

    private func print(_ counts: ErasureCounts, _ erasure: Erasure, _ console: Terminal) throws {
        if json {
            var members: JSONMembers = ["device_key": erasure.deviceKey.description, "dry_run": dryRun]
            for (name, count) in counts.tables { members.add(name, count) }
            return try console.json(members)
        }
        let cells = counts.tables.map { [$0.name, Amount.count($0.count)] }
        console.table(TextTable(["TABLE", .init(dryRun ? "WOULD BE ERASED" : "ERASED")], cells))
        guard !dryRun else { return }
        console.message(
            "device \(erasure.deviceKey): only hashes remain in the ledger; earlier backups, WAL and exports still "
                + "contain its data"
        )
    }
}
