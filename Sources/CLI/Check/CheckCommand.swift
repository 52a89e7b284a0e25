import ArgumentParser
import Logging
import UpstreamKit
import Worker

/// Tells whether the configuration is right and, if asked, whether what it names answers.
struct CheckCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validates the configuration; with --connect also tries what it names.",
        discussion: """
            Examples:
              upstream-worker check --config worker.yaml
              upstream-worker check --config worker.yaml --connect
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Also try the database and every sender: TCP, TLS, SASL, bind.")
    var connect = false

    func run() async throws {
        let result = try options.load()
        let configuration = result.configuration
        let own = try await OwnHandlers.make()
        let quiet = Logger(label: "check") { _ in SwiftLogNoOpLogHandler() }
        try WorkerRuntime.validate(configuration, handlers: own, logger: quiet)
        for registration in own {
            if case .handler(let handler) = registration.body { await handler.shutdown() }
        }
        let (senders, handlers) = (configuration.senders.count, configuration.handlers.count + own.count)
        Console.data("\(result.path): ok (\(senders) senders, \(handlers) handlers)")
        guard connect else { return }
        var worst: ExitStatus?
        for sequence in Self.probes(configuration) {
            for outcome in await sequence.run() {
                Console.data(Self.line(sequence.subject, outcome))
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

    private static func line(_ subject: String, _ outcome: ProbeSequence.Outcome) -> String {
        switch outcome.result {
        case .passed(let detail): "ok      \(subject): \(outcome.step): \(detail)"
        case .failed(let cause, let fix, _): "FAILED  \(subject): \(outcome.step): \(cause)\n        fix: \(fix)"
        case .skipped: "-       \(subject): \(outcome.step): not tried"
        }
    }
}
