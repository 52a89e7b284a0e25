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
        abstract: "Validates the configuration; with --connect also tries the database and the senders.",
        discussion: """
            Examples:
              upstream-worker check --config worker.yaml
              upstream-worker check --config worker.yaml --connect
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Also try the database and every sender: TCP, TLS, SASL, bind.")
    var connect = false

    func run(in context: CommandContext) async throws {
        let console = context.console
        let result = try options.load(context, parts: Set(ConfigurationPart.allCases))
        let configuration = result.configuration
        let own = try await context.ownHandlers()
        let quiet = Logger(label: "check") { _ in SwiftLogNoOpLogHandler() }
        try WorkerRuntime.validate(configuration, handlers: own, logger: quiet)
        for registration in own {
            if case .handler(let handler) = registration.body { await handler.shutdown() }
        }
        let (senders, handlers) = (configuration.senders.count, configuration.handlers.count + own.count)
        console.data(TerminalText.escape("\(result.path): ok (\(senders) senders, \(handlers) handlers)"))
        guard connect else { return }
        var worst: ExitStatus?
        for sequence in Self.probes(configuration) {
            for outcome in await sequence.run() {
                for line in Self.lines(sequence.subject, outcome) { console.data(TerminalText.escape(line)) }
                if case .failed(_, _, let status) = outcome.result { worst = worst ?? status }
            }
        }
        if let worst { throw CommandFailure(worst) }
    }

    /// What is tried, in order.
    private static func probes(_ configuration: WorkerConfiguration) -> [ProbeSequence] {
        [.database(configuration.database)]
            + configuration.senders.indices.map { .sender(configuration, index: $0) }
    }

    private static func lines(_ subject: String, _ outcome: ProbeSequence.Outcome) -> [String] {
        switch outcome.result {
        case .passed(let detail): ["ok      \(subject): \(outcome.step): \(detail)"]
        case .failed(let cause, let fix, _): ["FAILED  \(subject): \(outcome.step): \(cause)", "        fix: \(fix)"]
        case .skipped: ["-       \(subject): \(outcome.step): not tried"]
        }
    }
}
