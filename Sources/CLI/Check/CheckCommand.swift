import ArgumentParser
import Logging
import MessageStore
import Postgres
import Probing
import UpstreamConfiguration
import UpstreamKit
import Vocabulary
import Worker

struct CheckCommand: ProgramCommand {
    static let manual = """
        check: Validates the configuration; with --connect also tries database, handlers and senders.
          upstream-worker check --config worker.yaml
          upstream-worker check --config worker.yaml --connect
          sudo -u upstream-worker upstream-worker check --connect   # as its role
          upstream-worker check --connect --json | jq '.steps[].result'
          upstream-worker check --connect --thorough --accounts accounts.txt
          upstream-worker check --forget-pin 1234567890   # it no longer binds

        --connect signs in to the database and stores a message, which is rolled back; looks for each handler's \
        function, program or host, and calls none; and opens and closes a stream of each sender. Each line that \
        failed is followed by its fix. A sender that has signed in with channel binding signs in by nothing less, until \
        --forget-pin; workers know within seconds.

        --thorough tries what a standard server does to messages, storage and sessions, with two accounts made for that, \
        and takes about a minute, at most five. --accounts names a file of two lines, each an account's local part, a \
        space, its password; what is stored for the first is dropped. Exit code 77: refused; 69: down; 78: something has \
        to be set up.
        """

    @OptionGroup var options: CommonOptions
    @Flag(help: "Also try what run does: the database, the handlers, and every sender. Changes nothing.")
    var connect = false
    @Flag(help: "With --connect: also try how standard servers treat messages, between two accounts made for that.")
    var thorough = false
    @Option(help: .value("file", "The accounts of --thorough, and their passwords."), completion: .file())
    var accounts: String?
    @Option(help: .value("sender", "First forget that this sender has signed in with channel binding."))
    var forgetPin: String?
    @OptionGroup var reason: ReasonOption
    @OptionGroup var format: ObjectFormatOptions

    func run(in context: CommandContext) async throws {
        let console = context.console
        guard thorough == (accounts != nil), connect || !thorough else {
            throw CommandFailure(.usage, "--thorough goes with --connect and --accounts")
        }
        let result = try options.load(context, parts: Set(ConfigurationPart.allCases))
        let configuration = result.configuration
        let accounts = try accounts.map { try TrialAccount.read($0, beside: configuration.senders) }
        let trials = accounts.map { ProbeSequence.trials(configuration, $0) } ?? []
        guard trials.isEmpty != thorough else {
            throw CommandFailure(.usage, "--thorough: no sender has dialect: xmpp")
        }
        guard trials.count < 2 else {
            let servers = "the senders have accounts at \(trials.count) servers, and these passwords are for one"
            throw CommandFailure(.usage, "--thorough: \(servers): give it a configuration with that one alone")
        }
        let own = try await context.ownHandlers()
        let quiet = Logger(label: "check") { _ in SwiftLogNoOpLogHandler() }
        try WorkerRuntime.validate(configuration, handlers: own, logger: quiet)
        try await HandlerFactory.tryOut(configuration.handlers)
        for registration in own {
            if case .handler(let handler) = registration.body { await handler.shutdown() }
        }
        let (senders, handlers) = (configuration.senders.count, configuration.handlers.count + own.count)
        let format = format
        if !format.json {
            let counts = "\(Amount.counted(senders, "sender")), \(Amount.counted(handlers, "handler"))"
            console.data(TerminalText.escape("\(result.path): ok (\(counts))"))
        }
        if let forgetPin { try await forget(forgetPin, configuration, console) }
        var worst: ExitStatus?
        var steps: [JSONMembers] = []
        for sequence in (connect ? ProbeSequence.all(configuration) : []) + trials {
            await sequence.run { outcome in
                let words = Self.words(outcome.result)
                if format.json {
                    steps.append([
                        "subject": sequence.subject, "step": outcome.step, "result": words.result,
                        "detail": words.detail, "fix": words.fix,
                    ])
                } else {
                    Self.show(Self.lines("\(sequence.subject): \(outcome.step)", words), console)
                }
                if case .failed(_, _, let status) = outcome.result { worst = worst ?? status }
            }
        }
        if format.json {
            try console.json(object: [
                "path": result.path, "sound": worst == nil, "senders": senders, "handlers": handlers, "steps": steps,
            ])
        }
        if let worst { throw CommandFailure(worst) }
    }

    private func forget(_ sender: String, _ configuration: WorkerConfiguration, _ console: Terminal) async throws {
        guard configuration.senders.contains(where: { $0.senderID == sender }) else {
            throw CommandFailure(.usage, "--forget-pin: no sender \(sender) is configured")
        }
        let author = reason.author
        let connection = try await PostgresConnection.open(PostgresSettings(url: configuration.database.url))
        let count = try await connection.inTransaction { connection throws(PostgresError) in
            try BindingPins.forget(connection, sender, by: author)
        }
        await connection.close()
        console.message(count > 0 ? "forgot the pin of sender \(sender)" : "sender \(sender) has no pin")
    }

    private typealias Words = (mark: String, result: String, detail: String?, fix: String?)

    private static func words(_ result: Probe.Result) -> Words {
        switch result {
        case .passed(let detail): ("ok      ", "ok", detail, nil)
        case .warned(let cause, let fix): ("warning ", "warning", cause, fix)
        case .failed(let cause, let fix, _): ("FAILED  ", "failed", cause, fix)
        case .skipped: ("-       ", "skipped", nil, nil)
        }
    }

    private static func show(_ lines: [String], _ console: Terminal) {
        for (place, line) in lines.map({ TerminalText.escape($0) }).enumerated() {
            let mark = line.prefix(place == 0 ? 8 : 0)
            console.data(console.painted(mark, Tone(state: String(mark))) + line.dropFirst(mark.count))
        }
    }

    private static func lines(_ step: String, _ words: Words) -> [String] {
        // Texts of servers and libraries may have several lines.
        func indented(_ text: String) -> [String] { text.split(whereSeparator: \.isNewline).map { String($0) } }
        let head = indented("\(words.mark)\(step): \(words.detail ?? "not tried")")
        let fix = words.fix.map { indented("        fix: \($0)") } ?? []
        return head.prefix(1) + head.dropFirst().map { "        " + $0.drop { $0 == " " } } + fix.prefix(1)
            + fix.dropFirst().map { "             " + $0 }
    }
}
