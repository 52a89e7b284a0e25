import ArgumentParser
import Diagnosis
import Postgres
import Querying
import UpstreamConfiguration
import Vocabulary
import Worker

struct AuditCommand: ProgramCommand {
    static let manual = """
        audit: Proves from the tables that no message is missing or stored twice.
          upstream-worker audit
          upstream-worker audit --since yesterday
          upstream-worker audit --against acks.ndjson
          upstream-worker audit --against-archive --since 2d
          upstream-worker audit --json | jq '.checks[] | select(.wrong > 0)'

        Compares the ledger with the bodies in both directions, and deliveries,
        blocks and dead letters with their messages. With --against it also checks
        that each message of a file is known: what `emulate --acks` or `messages
        export` wrote, one JSON object per line. With --against-archive it reads the
        server's archive of each sender with archive.catch_up, from when catching up
        began (or --since) to a minute ago, and checks that each of its messages is
        known. Works in parts of seconds, each in a snapshot of its own, so that
        vacuum is not held back; changes nothing.

        Exit code 0: everything adds up; 1: something does not, and the first keys
        of it are shown; 65: the file is in another form; 69: no database, or server.
        """

    @OptionGroup var options: CommonOptions
    @Option(help: .value("time", "Only messages received at or after: 2d, 2026-01-31.")) var since: String?
    @Option(help: .value("time", "Only messages received before.")) var until: String?
    @Option(help: .value("file", "Check that each message of this file is known."), completion: .file())
    var against: String?
    @Flag(help: "Check that each message of the servers' archives is known.")
    var againstArchive = false
    @Option(help: .value("duration", "How long one statement may take, for example 2h."))
    var timeout = DurationArgument(seconds: 600)
    @OptionGroup var format: ObjectFormatOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        // Mistakes should not be noticed after minutes.
        _ = try times(now: .now)
        let archives =
            againstArchive ? ArchiveReading.all(try options.load(context, parts: [.senders]).configuration) : []
        guard !againstArchive || !archives.isEmpty else {
            throw CommandFailure(.usage, "--against-archive: no sender has archive.catch_up: on")
        }
        let file = try against.map { path throws(AckedFile.Failure) in try AckedFile(path) }
        let report = try await options.withReader(context, timeout: timeout.microseconds, isOfPrimary: true) {
            connection in
            do {
                return try await audit(connection, console, against: file, archives)
            } catch let error as PostgresError where error.sqlState == "57014" || error.failureClass == .deadline {
                throw CommandFailure(
                    .temporaryFailure,
                    "a statement of the audit took longer than --timeout: allow more, or audit a shorter time with --since "
                        + "and --until"
                )
            }
        }
        if format.json {
            try console.json(object: [
                "sound": report.isSound, "checks": report.results, "ledger": report.ledger,
                "unverifiable_acks": report.unverifiable, "remarks": report.remarks,
            ])
        } else {
            show(report, console)
        }
        if !report.isSound { throw CommandFailure(.negative) }
    }

    private func audit(
        _ connection: PostgresConnection,
        _ console: Terminal,
        against file: AckedFile?,
        _ archives: [ArchiveReading]
    ) async throws -> ConservationReport {
        let now = try await connection.databaseTime()
        let (since, until) = try times(now: now)
        let conservation = Conservation(connection, since: since, until: until)
        let bar = ProgressBar("audit", on: console)
        var report = try await conservation.run { bar.show($0, of: $1) }
        if let file { try await conservation.compare(with: file, &report) { bar.show($0, of: $1, against ?? "") } }
        bar.clear()
        for archive in archives { try await compare(with: archive, conservation, &report, console) }
        return report
    }

    private func compare(
        with archive: ArchiveReading,
        _ conservation: Conservation,
        _ report: inout ConservationReport,
        _ console: Terminal
    ) async throws {
        let sender = archive.sender
        guard let range = try await conservation.range(ofArchive: archive.archive, of: sender, &report) else { return }
        let total = range.since.map { (range.until - $0).microseconds }
        let bar = ProgressBar("\(sender)'s archive", on: console)
        defer { bar.clear() }
        var count = 0
        do {
            bar.show(0, of: total)
            try await archive.read(since: range.since, until: range.until) { messages, time in
                let all = messages.map { AckedMessage(key: $0.key, others: $0.otherKeys, sender: sender, id: $0.id) }
                try await conservation.compare(archived: all, &report)
                count += all.count
                let done = range.since.map { ((time ?? $0) - $0).microseconds }
                bar.show(done ?? Int64(count), of: total, Amount.counted(count, "message"))
            }
        } catch let failure as ArchiveReading.Failure {
            throw CommandFailure(failure.status, failure.message)
        }
    }

    private func times(now: Timestamp) throws -> (since: Timestamp?, until: Timestamp?) {
        let since = try since.map { try TimeExpression.parse($0, now: now) }
        let until = try until.map { try TimeExpression.parse($0, now: now) }
        if let since, let until, since >= until { throw CommandFailure(.usage, "--since must be before --until") }
        return (since, until)
    }

    private func show(_ report: ConservationReport, _ console: Terminal) {
        let cells = report.results.map {
            [$0.check.rawValue, Amount.count($0.looked), $0.wrong == 0 ? "ok" : "\(Amount.count($0.wrong)) WRONG"]
        }
        console.table(TextTable(["CHECK", "LOOKED AT", .init("RESULT").ofStates], cells))
        let rows = report.ledger
        let parts = [
            ("bodies", rows.bodies), ("kept for dead letters", rows.kept), ("dropped days", rows.dropped),
            ("erased", rows.erased), ("MISSING", rows.missing),
        ].filter { $0.0 == "bodies" || $0.1 > 0 }
        let sum = parts.map { "\($0.0) \(Amount.count($0.1))" }.joined(separator: " + ")
        console.data("")
        console.data("ledger \(Amount.count(rows.rows)) = \(sum)")
        if report.unverifiable > 0 {
            console.data(
                "\(Amount.count(report.unverifiable)) acks can't be told: from before retention.messages, with an id that no "
                    + "column can hold, or with one of a device alone and without its key"
            )
        }
        for remark in report.remarks { console.data(remark) }
        for result in report.results where !result.examples.isEmpty {
            console.data("")
            console.data("\(result.check.rawValue):")
            for example in result.examples { console.data("  \(TerminalText.escape(example))") }
            let more = result.wrong - Int64(result.examples.count)
            if more > 0 { console.data("  and \(Amount.count(more)) more") }
        }
    }
}
