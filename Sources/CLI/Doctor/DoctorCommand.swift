import ArgumentParser
import Diagnosis
import Postgres
import Querying
import UpstreamConfiguration
import Vocabulary

struct DoctorCommand: ProgramCommand {
    static let manual = """
        doctor: Looks at a running system and says what is wrong and what to do about it.
          upstream-worker doctor
          upstream-worker doctor --json | jq -r '.findings[].name'
          upstream-worker doctor --config worker.yaml --timeout 30s

        Looks, over the configured database alone, at the server and its settings,
        old transactions and dead rows, partitions, disk, replication, the lag of
        database.read_url, workers,
        senders, handlers, retention and odd messages. It reads catalogs, counters
        and small tables, no messages, and changes nothing. What the role may not
        see is listed; what it could not look at, since that took too long, is a
        warning. The rest is looked at all the same.

        Exit code 0: nothing critical and no warning (notes don't count); 1: at least
        one of them; 69: the database can't be reached; 77: it refuses the role.
        The names of the findings are stable; docs/findings.md lists them.
        """

    @OptionGroup var options: CommonOptions
    @Option(help: .value("duration", "How long one statement may take, for example 30s."))
    var timeout = DurationArgument(seconds: 10)
    @OptionGroup var format: ObjectFormatOptions

    func run(in context: CommandContext) async throws {
        let limit = Int(max(1, timeout.microseconds / 1_000))
        let diagnosis = try await options.withDatabase(context, statementTimeout: limit) { connection, configuration in
            try await connection.run { connection throws(PostgresError) in try connection.becomeReadOnly() }
            var reads: Result<ReadLag, PostgresError>?
            if let url = configuration.database.readURL {
                var settings = try PostgresSettings.reader(url: url)
                settings.statementTimeout = limit
                reads = await Doctor.readLag(settings)
            }
            return try await Doctor(connection, reads: reads).examine()
        }
        let console = context.console
        if format.json {
            let findings = diagnosis.findings.map { finding -> JSONMembers in
                let name = (finding.name.rawValue, finding.severity.rawValue)
                return ["name": name.0, "severity": name.1, "text": finding.text, "fix": finding.fix]
            }
            try console.json(object: [
                "healthy": diagnosis.isHealthy, "findings": findings, "unseen": diagnosis.unseen,
                "facts": Dictionary(diagnosis.facts.map { ($0.name, $0.value) }) { $1 },
            ])
        } else {
            show(diagnosis, console)
        }
        if !diagnosis.isHealthy { throw CommandFailure(.negative) }
    }

    private func show(_ diagnosis: Diagnosis, _ console: Terminal) {
        var facts = FactList()
        for fact in diagnosis.facts { facts.add(fact.name, fact.value) }
        console.facts(facts)
        for finding in diagnosis.findings {
            console.data("")
            var lines = FactList()
            lines.add(severity: finding.severity.rawValue, finding.name.rawValue)
            lines.add("", finding.text)
            lines.add("fix", finding.fix)
            console.facts(lines)
        }
        if !diagnosis.unseen.isEmpty {
            console.data("")
            var lines = FactList()
            for unseen in diagnosis.unseen { lines.add("not looked at", "\(unseen.subject): \(unseen.reason)") }
            console.facts(lines)
        }
        let counts = Finding.Severity.allCases.compactMap { severity -> String? in
            let count = diagnosis.findings.count { $0.severity == severity }
            guard count > 0 else { return nil }
            let noun = severity == .critical ? "critical" : severity.rawValue + (count == 1 ? "" : "s")
            return console.painted("\(count) \(noun)", Tone(state: "\(count) \(noun)"))
        }
        console.data("")
        console.data(counts.isEmpty ? console.painted("nothing is wrong", .good) : counts.joined(separator: ", "))
    }
}
