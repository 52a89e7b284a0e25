import ArgumentParser
import Glibc
import Postgres
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `messages export`.
struct MessagesExport: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Writes any number of messages as NDJSON or CSV, the oldest first.",
        discussion: """
            Examples:
              upstream-worker messages export --since 2026-01-01 --until 2026-02-01 --output january.ndjson
              upstream-worker messages export --since 2026-01-01 --until 2026-02-01 --output january.ndjson --resume
              upstream-worker messages export --category com.example.orders --csv > orders.csv
              upstream-worker messages export --with-tokens --until 5m --output all.ndjson      for replay import

            The lines hold everything that `replay import` needs, registration tokens only with --with-tokens. A file is
            readable by its owner only. --resume continues behind the last complete line of a file: give the same filters.
            What commits while the export runs is in it only where it lies ahead, so --until should be a little before now.
            """
    )

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Flag(help: "RFC 4180 with a head instead of NDJSON.")
    var csv = false
    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Where to write; without it, to stdout.", valueName: "file"),
        completion: .file()
    )
    var output: String?
    @Flag(help: "Continue a file that an earlier export was cut off in.")
    var resume = false
    @Flag(help: "Write registration tokens too. They are credentials: guard the file.")
    var withTokens = false
    @Option(help: ArgumentHelp("How long reading one page may take; without it, a day.", valueName: "duration"))
    var timeout: DurationArgument?

    func run() async throws {
        guard !resume || output != nil else {
            throw CommandFailure(.usage, "--resume continues a file: name it with --output")
        }
        let typed = try filter.make()
        try await options.withReader(timeout: timeout?.microseconds) { connection in
            var chosen = try await filter.judged(typed, connection)
            // Else an export would chase what arrives.
            if chosen.until == nil { chosen.until = try await MessageTail.now(connection) }
            try await export(chosen, connection)
        }
    }

    private func export(_ filter: MessageFilter, _ connection: PostgresConnection) async throws {
        try await options.warn(of: filter, connection)
        let file = try output.map { path throws(ExportError) in try ExportFile.open(path, isResumed: resume) }
        var export = MessageExport(filter, csv ? .csv : .ndjson, tokens: withTokens)
        export.isForTerminal = file == nil && Screen.isTerminal
        let start = try file.flatMap { file throws(ExportError) in resume ? try export.resume(file) : nil }
        if let start { Console.message("resuming after \(start)") }
        let bar = ProgressBar("export")
        let total = isatty(STDERR_FILENO) == 1 ? try await ScanEstimate.rows(filter, after: start, connection) : nil
        let began = ContinuousClock.now
        let done = try await export.run(to: file ?? .standardOutput, after: start, connection) { progress in
            let seconds = Self.seconds(since: began)
            let rate = Double(progress.rows) / max(seconds, 0.001)
            var note = "\(Amount.count(progress.rows)) of about \(Amount.count(max(total ?? 0, progress.rows)))"
            note += "  \(Amount.count(Int64(rate)))/s"
            if let total, total > progress.rows {
                note += "  \(Amount.time(Double(total - progress.rows) / rate)) left"
            }
            bar.show(progress.rows, of: total.map { max($0, progress.rows) }, note)
        }
        bar.clear()
        let seconds = Self.seconds(since: began)
        let rate = Amount.count(Int64(Double(done.rows) / max(seconds, 0.001)))
        Console.message(
            "exported \(Amount.count(done.rows)) messages, \(Amount.bytes(done.bytes)) in \(Amount.time(seconds)) (\(rate)/s)"
        )
    }

    private static func seconds(since start: ContinuousClock.Instant) -> Double {
        let time = start.duration(to: .now).components
        return Double(time.seconds) + Double(time.attoseconds) / 1e18
    }
}

extension ExitStatus {
    /// What an export that could not be written means for a command.
    init(_ error: ExportError) {
        self =
            switch error.kind {
            case .refused: .usage
            case .mismatch: .badData
            case .output, .readerGone: .temporaryFailure
            }
    }
}
