import ArgumentParser
import MessageStore
import Postgres
import UpstreamKit
import Worker

/// `forget`: erases what is kept of one device.
struct ForgetCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "forget",
        abstract: "Erases one device: its messages, deliveries, dead letters, conflicts and quarantined stanzas.",
        discussion: """
            Examples:
              upstream-worker forget --token-file token.txt --dry-run
              upstream-worker forget --token-file token.txt
              upstream-worker forget --token-file token.txt --yes --json

            What stays are the hashes in the ledger, so that a copy that comes again is known and not stored. Needs the \
            rights of the tables' owner. Safe to repeat. WAL, backups, replicas' archives and exports are out of its \
            reach: docs/operations.md.
            """
    )

    @OptionGroup var options: CommonOptions
    @Option(help: "A file with the device's registration token and nothing else.", completion: .file())
    var tokenFile: String
    @Flag(help: "Count what would be erased, and change nothing.")
    var dryRun = false
    @Flag(help: "Do it without asking.")
    var yes = false
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

    func run() async throws {
        let token = try Self.read(tokenFile)
        // VACUUM of a day may take its time.
        try await options.withDatabase(statementTimeout: 6 * 3_600_000) { connection, _ in
            let erasure = Erasure(connection, token: token)
            let bar = ProgressBar("forget")
            if dryRun {
                let counts = try await erasure.count { Self.show($0, bar) }
                bar.clear()
                return try print(counts, erasure)
            }
            if !yes { try await confirm(erasure) }
            do {
                let counts = try await erasure.run { Self.show($0, bar) }
                bar.clear()
                try print(counts, erasure)
            } catch let error as PostgresError where error.failureClass == .permission {
                bar.clear()
                throw CommandFailure(
                    .refused,
                    "database: \(error): forget deletes, which only the tables' owner may: "
                        + "--set database.url=… connects as another role"
                )
            }
        }
    }

    private func confirm(_ erasure: Erasure) async throws {
        guard let answer = Console.ask("Erase everything of the device \(erasure.deviceKey) for good?") else {
            throw CommandFailure(.usage, "forget deletes: add --yes where nobody can be asked, or --dry-run to count")
        }
        guard answer else { throw CommandFailure(.negative, "nothing was changed") }
    }

    /// The token of a file: one line.
    private static func read(_ path: String) throws -> [UInt8] {
        let lines: [[UInt8]]
        do {
            lines = try SecretFile(path: path).lines()
        } catch {
            throw CommandFailure(error.isMissing ? .noInput : .badData, error.message)
        }
        guard let token = lines.first, lines.count == 1 else {
            let what = lines.isEmpty ? "is empty" : "has more than one line"
            throw CommandFailure(.badData, "'\(path)' \(what): it must hold one registration token")
        }
        guard token.count <= 4096, String(validating: token, as: UTF8.self) != nil else {
            throw CommandFailure(
                .badData,
                "'\(path)' holds no registration token: that is UTF-8 text of 4,096 bytes at most"
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

    private func print(_ counts: ErasureCounts, _ erasure: Erasure) throws {
        if json {
            return try Console.json(
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
        func row(_ name: String, _ count: Int) -> [String] { [name, Amount.count(Int64(count))] }
        Console.data(
            Console.table([
                ["TABLE", dryRun ? "WOULD BE ERASED" : "ERASED"],
                row("messages", counts.messages), row("dead_messages", counts.deadMessages),
                row("deliveries", counts.deliveries),
                row("dead_letters", counts.deadLetters), row("conflicts", counts.conflicts),
                row("quarantine", counts.quarantine),
            ])
        )
        if !dryRun {
            Console.message(
                "device \(erasure.deviceKey): only hashes are left in the ledger; backups, WAL and exports made before "
                    + "still hold what they hold"
            )
        }
    }
}
