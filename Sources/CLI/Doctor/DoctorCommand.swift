import ArgumentParser
import Diagnosis
import Postgres
import Querying
import Vocabulary

struct DoctorCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Looks at a running system and says what is wrong and what to do about it.",
        discussion: """
            Examples:
              upstream-worker doctor
              upstream-worker doctor --json | jq -r '.findings[].name'
              upstream-worker doctor --config worker.yaml --timeout 30s

            Looks, over the configured database alone, at the server and its settings,
            old transactions and dead rows, partitions, disk, replication, workers,
            senders, handlers, retention and odd messages. It reads catalogs, counters
            and small tables, no messages, and changes nothing. What the role may not
            see is listed; what it could not look at, since that took too long, is a
            warning. The rest is looked at all the same.

            Exit code 0: nothing critical and no warning (notes don't count); 1: at least
            one of them; 69: the database can't be reached; 77: it refuses the role.
            The names of the findings are stable; docs/findings.md lists them.
            """
    )

    @OptionGroup var options: CommonOptions
    @Option(help: ArgumentHelp("How long one statement may take, for example 30s.", valueName: "duration"))
    var timeout = DurationArgument(seconds: 10)
    @OptionGroup var format: ObjectFormatOptions

    private struct Document: Encodable {
        struct Item: Encodable {
            var name: String
            var severity: String
            var text: String
            var fix: String
        }
        struct Unseen: Encodable {
            var subject: String
            var reason: String
        }
        var healthy: Bool
        var findings: [Item]
        var unseen: [Unseen]
        var facts: [String: String]

        init(_ diagnosis: Diagnosis) {
            healthy = diagnosis.isHealthy
            findings = diagnosis.findings.map {
                Item(name: $0.name.rawValue, severity: $0.severity.rawValue, text: $0.text, fix: $0.fix)
            }
            unseen = diagnosis.unseen.map { Unseen(subject: $0.subject, reason: $0.reason) }
            facts = Dictionary(diagnosis.facts.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        }
    }

    func run(in context: CommandContext) async throws {
        let limit = Int(max(1, timeout.microseconds / 1_000))
        let diagnosis = try await options.withDatabase(context, statementTimeout: limit) { connection, _ in
            try await connection.run { connection throws(PostgresError) in try connection.becomeReadOnly() }
            return try await Doctor(connection).examine()
        }
        let console = context.console
        if format.json {
            try console.json(Document(diagnosis))
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
        console.data("")
        console.data(Self.summary(diagnosis, isColoured: console.isColoured))
    }

    private static func summary(_ diagnosis: Diagnosis, isColoured: Bool) -> String {
        let counts = Finding.Severity.allCases.compactMap { severity -> String? in
            let count = diagnosis.findings.count { $0.severity == severity }
            guard count > 0 else { return nil }
            let noun = severity == .critical ? "critical" : severity.rawValue + (count == 1 ? "" : "s")
            let text = "\(count) \(noun)"
            return isColoured ? Tone(state: text)?.painted(text) ?? text : text
        }
        guard counts.isEmpty else { return counts.joined(separator: ", ") }
        return isColoured ? Tone.good.painted("nothing is wrong") : "nothing is wrong"
    }
}
