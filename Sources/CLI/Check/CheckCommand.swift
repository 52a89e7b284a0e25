import ArgumentParser
import Logging
import Querying
import UpstreamKit
import Vocabulary
import Worker

/// `check`: whether the configuration is valid and, with `--connect`, whether its database and senders answer.
struct CheckCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validates the configuration; with --connect also tries database, handlers and senders.",
        discussion: """
            Examples:
              upstream-worker check --config worker.yaml
              upstream-worker check --config worker.yaml --connect
              sudo -u upstream-worker upstream-worker check --connect   # as its role

            --connect signs in to the database and stores a message, which is rolled back; looks for each handler's \
            function, program or host, and calls none; and opens and closes a stream of each sender. Each line that \
            failed is followed by its fix. Exit code 77: refused; 69: down; 78: something has to be set up.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Also try what run does: the database, the handlers, and every sender. Changes nothing.")
    var connect = false

    func run(in context: CommandContext) async throws {
        let console = context.console
        let result = try options.load(context, parts: Set(ConfigurationPart.allCases))
        let configuration = result.configuration
        let own = try await context.ownHandlers()
        let quiet = Logger(label: "check") { _ in SwiftLogNoOpLogHandler() }
        try WorkerRuntime.validate(configuration, handlers: own, logger: quiet)
        try await PluginProbe.run(configuration)
        for registration in own {
            if case .handler(let handler) = registration.body { await handler.shutdown() }
        }
        let (senders, handlers) = (configuration.senders.count, configuration.handlers.count + own.count)
        console.data(TerminalText.escape("\(result.path): ok (\(senders) senders, \(handlers) handlers)"))
        guard connect else { return }
        var worst: ExitStatus?
        for sequence in ProbeSequence.all(configuration) {
            await sequence.run { outcome in
                for line in Self.lines(sequence.subject, outcome) { console.data(TerminalText.escape(line)) }
                if case .failed(_, _, let status) = outcome.result { worst = worst ?? status }
            }
        }
        if let worst { throw CommandFailure(worst) }
    }

    private static func lines(_ subject: String, _ outcome: ProbeSequence.Outcome) -> [String] {
        switch outcome.result {
        case .passed(let detail): ["ok      \(subject): \(outcome.step): \(detail)"]
        case .warned(let cause, let fix):
            ["warning \(subject): \(outcome.step): \(cause)", "        fix: \(fix)"]
        case .failed(let cause, let fix, _): ["FAILED  \(subject): \(outcome.step): \(cause)", "        fix: \(fix)"]
        case .skipped: ["-       \(subject): \(outcome.step): not tried"]
        }
    }
}
