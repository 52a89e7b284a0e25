import ArgumentParser
import Postgres
import Querying
import Resources
import Vocabulary

struct MessagesExport: ProgramCommand {
    static let manual = """
        export: Writes any number of messages as NDJSON or CSV, the oldest first.
          upstream-worker messages export --since 2026-01-01 --until 2026-02-01 \\
            --output january.ndjson
          upstream-worker messages export --since 2026-01-01 --until 2026-02-01 \\
            --output january.ndjson --resume
          upstream-worker messages export --category com.example.orders \\
            --csv > orders.csv
          upstream-worker messages export --with-tokens --until 5m --output all.ndjson

        The lines hold everything that `replay import` needs; registration tokens only with --with-tokens. Only its owner
        can read the file. --resume continues after the last complete line of a file: give the same filters. A message
        that commits while the export runs may be missing, so --until should be a little before now.
        """

    @OptionGroup var options: CommonOptions
    @OptionGroup var filter: FilterOptions
    @Flag(help: "CSV (RFC 4180) with a header row instead of NDJSON.") var csv = false
    @Option(name: .shortAndLong, help: .value("file", "Where to write; stdout by default."), completion: .file())
    var output: String?
    @Flag(help: "Continue the file of an export that was interrupted.") var resume = false
    @Flag(help: "Write registration tokens too. They are credentials: guard the file.") var withTokens = false
    @Flag(help: .unlisted("What `list` calls it.")) var reveal = false
    @Option(help: .value("duration", "How long reading one page may take; a day by default."))
    var timeout: DurationArgument?

    func run(in context: CommandContext) async throws {
        guard !resume || output != nil else {
            throw CommandFailure(.usage, "--resume continues a file: name it with --output")
        }
        let asked = try filter.asked(context.console)
        try await options.withReader(context, timeout: timeout?.microseconds) { connection in
            var chosen = try await asked.judged(connection)
            if chosen.until == nil { chosen.until = try await MessageExport.end(connection) }
            try await export(chosen, connection, context.console)
        }
    }

    private func export(_ filter: MessageFilter, _ connection: PostgresConnection, _ console: Terminal) async throws {
        try await options.warn(of: filter, connection, console)
        let file = try output.map { path throws(ExportError) in try ExportFile.open(path, isResumed: resume) }
        var export = MessageExport(filter, csv ? .csv : .ndjson, tokens: withTokens || reveal)
        export.isForTerminal = file == nil && console.output.isTerminal
        let start = try file.flatMap { file throws(ExportError) in resume ? try export.resume(file) : nil }
        if let start { console.message("resuming after \(start)") }
        let bar = ProgressBar("export", on: console)
        let total = console.errors.isTerminal ? try await ScanEstimate.rows(filter, after: start, connection) : nil
        let began = ContinuousClock.now
        let done = try await export.run(to: file ?? console.outputFile, after: start, connection) { progress in
            let seconds = began.duration(to: .now).inSeconds
            let rate = Double(progress.rows) / max(seconds, 0.001)
            var note = "\(Amount.count(progress.rows)) of about \(Amount.count(max(total ?? 0, progress.rows)))"
            note += "  \(Amount.count(Int64(rate)))/s"
            if let total, total > progress.rows {
                note += "  \(Amount.time(Double(total - progress.rows) / rate)) left"
            }
            bar.show(progress.rows, of: total.map { max($0, progress.rows) }, note)
        }
        bar.clear()
        let seconds = began.duration(to: .now).inSeconds
        let rate = Amount.count(Int64(Double(done.rows) / max(seconds, 0.001)))
        console.message(
            "exported \(Amount.count(done.rows)) messages, \(Amount.bytes(done.bytes)) in \(Amount.time(seconds)) (\(rate)/s)"
        )
    }
}

extension ExitStatus {
    init(_ error: ExportError) {
        self =
            switch error.kind {
            case .refused: .usage
            case .mismatch: .badData
            case .output: .temporaryFailure
            // The reader had all it wanted: `… | head`.
            case .readerGone: .ok
            }
    }
}
