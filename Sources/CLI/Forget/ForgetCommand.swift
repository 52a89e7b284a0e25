import ArgumentParser
import ConfigurationKeys
import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

struct ForgetCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Erases one device: its messages, deliveries, dead letters, conflicts and quarantined stanzas.",
        discussion: """
            Examples:
              upstream-worker forget --token-file token.txt --dry-run
              upstream-worker forget --token-file token.txt
              upstream-worker forget --token-file token.txt --yes --json

            Only the hashes in the ledger stay, so that a redelivered copy is recognised and not stored again. Needs the \
            rights of the tables' owner. Safe to repeat. WAL, backups, replicas' archives and exports are not changed: \
            see docs/retention.md.
            """
    )

    @OptionGroup var options: CommonOptions
    @Option(help: "File with the device's registration token and nothing else.", completion: .file())
    var tokenFile: String?
    @Option(help: ArgumentHelp("What `messages list` calls it.", visibility: .hidden), completion: .file())
    var fromTokenFile: String?
    @Flag(help: "Only count what would be erased.")
    var dryRun = false
    @Flag(help: "Do not ask for confirmation.")
    var yes = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON object instead of a table.")
    var json = false

    private struct Summary: Encodable {
        var deviceKey: String
        var dryRun: Bool
        var messages: Int
        var deadMessages: Int
        var deliveries: Int
        var deadLetters: Int
        var conflicts: Int
        var quarantine: Int
    }

    func run(in context: CommandContext) async throws {
        let console = context.console
        guard let file = tokenFile ?? fromTokenFile else {
            throw CommandFailure(.usage, "forget needs --token-file FILE: a token is never given as an argument")
        }
        let token = try Self.read(file)
        // VACUUM of a day's partition can be slow.
        try await options.withDatabase(context, statementTimeout: 6 * 3_600_000) { connection, _ in
            let erasure = Erasure(connection, token: token)
            let bar = ProgressBar("forget", on: console)
            if dryRun {
                let counts = try await erasure.count { Self.show($0, bar) }
                bar.clear()
                return try print(counts, erasure, console)
            }
            try console.confirm(
                "Erase everything about the device \(erasure.deviceKey)? This cannot be undone.",
                yes: yes,
                because: "forget deletes (--dry-run only counts)"
            )
            do {
                let counts = try await erasure.run(by: reason.author) { Self.show($0, bar) }
                bar.clear()
                try print(counts, erasure, console)
            } catch let error as PostgresError where error.failureClass == .permission {
                bar.clear()
                throw CommandFailure(
                    .refused,
                    "database: \(error): only the tables' owner may delete: connect as that role with "
                        + "--set database.url=…"
                )
            }
        }
    }

    /// Reads a token file of one line.
    private static func read(_ path: String) throws -> [UInt8] {
        let lines: [[UInt8]]
        do {
            lines = try SecretFile(path: path).lines(isGuarded: false)
        } catch {
            throw CommandFailure(error.isMissing ? .noInput : .badData, error.message)
        }
        guard let token = lines.first, lines.count == 1 else {
            let what = lines.isEmpty ? "is empty" : "has more than one line"
            throw CommandFailure(.badData, "'\(path)' \(what): it must contain one registration token")
        }
        guard token.count <= 4096, String(validating: token, as: UTF8.self) != nil else {
            throw CommandFailure(
                .badData,
                "'\(path)' is not a registration token: that is UTF-8 text of 4,096 bytes at most"
            )
        }
        return token
    }

    private static func show(_ progress: ErasureProgress, _ bar: ProgressBar) {
        switch progress {
        case .partition(let done, let all, let counts):
            bar.show(Int64(done), of: Int64(all), "days; \(Amount.count(Int64(counts.messages))) messages")
        case .quarantine(let id, let last, let counts):
            bar.show(id, of: last, "quarantine; \(Amount.count(Int64(counts.quarantine))) stanzas")
        case .vacuum(let table, let done, let all):
            bar.show(Int64(done), of: Int64(all), "VACUUM \(table)")
        }
    }

    private func print(_ counts: ErasureCounts, _ erasure: Erasure, _ console: Terminal) throws {
        if json {
            return try console.json(
                Summary(
                    deviceKey: erasure.deviceKey.description,
                    dryRun: dryRun,
                    messages: counts.messages,
                    deadMessages: counts.deadMessages,
                    deliveries: counts.deliveries,
                    deadLetters: counts.deadLetters,
                    conflicts: counts.conflicts,
                    quarantine: counts.quarantine
                )
            )
        }
        let cells = [
            ("messages", counts.messages), ("dead_messages", counts.deadMessages), ("deliveries", counts.deliveries),
            ("dead_letters", counts.deadLetters), ("conflicts", counts.conflicts), ("quarantine", counts.quarantine),
        ].map { [$0, Amount.count(Int64($1))] }
        console.table(TextTable(["TABLE", .init(dryRun ? "WOULD BE ERASED" : "ERASED")], cells))
        guard !dryRun else { return }
        console.message(
            "device \(erasure.deviceKey): only hashes remain in the ledger; earlier backups, WAL and exports still "
                + "contain its data"
        )
    }
}
