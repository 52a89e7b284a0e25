import ArgumentParser
import CGlibc
import Foundation
import Glibc
import MessageStore
import Postgres
import Replaying
import UpstreamConfiguration
import Vocabulary

struct ReplayImport: ProgramCommand {
    static let manual = """
        import: Stores the messages of an export in this database, each once.
          upstream-worker messages export --with-tokens --since 1d > day.ndjson
          upstream-worker replay import day.ndjson --config staging.yaml
          gunzip -c day.ndjson.gz | upstream-worker replay import -
          upstream-worker replay import fixtures.ndjson --deliver
          upstream-worker replay import day.ndjson --dry-run

        A message that is already stored is counted as a duplicate, or as a conflict if its content differs. A bad \
        line is reported with its number and skipped; the exit code is then 65.
        """

    @OptionGroup var options: CommonOptions
    @Argument(help: "The file; - for stdin.", completion: .file()) var file: String
    @Flag(help: "Deliver new messages to the subscribed handlers.") var deliver = false
    @Flag(help: "Stop at the first bad line.") var strict = false
    @Flag(help: "Check every line, compare it with what is stored, and store nothing.") var dryRun = false
    @OptionGroup var reason: ReasonOption
    @Flag(help: "One JSON object instead of text.") var json = false

    func run(in context: CommandContext) async throws {
        let console = context.console
        let configuration = try options.loadDatabase(context)
        let settings = try PostgresSettings(url: configuration.database.url)
        let descriptor = file == "-" ? console.input.descriptor : open(file, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else {
            throw CommandFailure(.noInput, "can't read \(file): \(String(cString: strerror(errno)))")
        }
        let size = Self.size(of: descriptor)
        let bar = ProgressBar("import", on: console)
        var shown = 0
        let importer = ReplayImporter(settings, isDelivered: deliver, isStrict: strict, isDryRun: dryRun)
        let report: ReplayImporter.Report
        do {
            defer { bar.clear() }
            try await record(settings)
            report = try await importer.run(from: descriptor) { problem in
                shown += 1
                if shown <= 20 { console.message("line \(problem.line): \(problem.message)") }
                if shown == 21 { console.message("more bad lines follow; they are only counted") }
            } onProgress: { report in
                bar.show(report.bytes, of: size, "\(Amount.count(Int64(report.lines))) lines")
            }
            try await record(settings, stored: report.stored)
        } catch let problem as ImportProblem {
            throw CommandFailure(.badData, "line \(problem.line): \(problem.message)")
        } catch let error as StoreError {
            throw Self.failure(error)
        }
        try show(report, console)
        guard report.refused == 0 else { throw CommandFailure(.badData) }
    }

    static func failure(_ error: StoreError) -> CommandFailure {
        let failure = CommandFailure(error)
        let hint = "run the same command again: nothing is stored twice"
        return CommandFailure(failure.status, "\(failure.message)\n\(hint)")
    }

    /// Records the import in the audit trail: before it, and, with the number of stored messages, after it.
    private func record(_ settings: PostgresSettings, stored: Int? = nil) async throws {
        guard !dryRun else { return }
        let name = file == "-" ? "stdin" : URL(filePath: file).lastPathComponent
        let connection = try await PostgresConnection.open(settings)
        try await AuditLog.record(
            over: connection,
            .importMessages,
            "file \(name)",
            count: stored,
            by: reason.author,
            isEnd: stored != nil
        )
        await connection.close()
    }

    private func show(_ report: ReplayImporter.Report, _ console: Terminal) throws {
        if json { return try console.json(report) }
        let rows = [
            ("lines", report.lines), (dryRun ? "new" : "stored", report.stored),
            ("duplicates", report.duplicates), ("conflicts", report.conflicts), ("bad lines", report.refused),
        ]
        console.facts(FactList(rows.map { ($0, Amount.count($1)) }))
    }

    /// The file's size; nil for a pipe.
    private static func size(of descriptor: Int32) -> Int64? {
        var status = upstream_file()
        guard upstream_fstat(descriptor, &status) == 0, status.mode & S_IFMT == S_IFREG else { return nil }
        return status.size
    }
}
