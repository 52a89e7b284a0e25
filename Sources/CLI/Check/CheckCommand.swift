import ArgumentParser
import Logging
import Probing
import UpstreamConfiguration
import UpstreamKit
import Vocabulary
import Worker

struct CheckCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validates the configuration; with --connect also tries database, handlers and senders.",
        discussion: """
            Examples:
              upstream-worker check --config worker.yaml
              upstream-worker check --config worker.yaml --connect
              sudo -u upstream-worker upstream-worker check --connect   # as its role
              upstream-worker check --connect --json | jq '.steps[].result'

            --connect signs in to the database and stores a message, which is rolled back; looks for each handler's \
            function, program or host, and calls none; and opens and closes a stream of each sender. Each line that \
            failed is followed by its fix. Exit code 77: refused; 69: down; 78: something has to be set up.
            """
    )

    @OptionGroup var options: CommonOptions
    @Flag(help: "Also try what run does: the database, the handlers, and every sender. Changes nothing.")
    var connect = false
    @OptionGroup var format: ObjectFormatOptions

    /// The output of `--json`.
    private struct Document: Encodable {
        struct Step: Encodable {
            var subject: String
            var step: String
            var result: String
            var detail: String?
            var fix: String?
        }
        var path: String
        var sound: Bool
        var senders: Int
        var handlers: Int
        var steps: [Step]
    }

    func run(in context: CommandContext) async throws {
        let console = context.console
        let result = try options.load(context, parts: Set(ConfigurationPart.allCases))
        let configuration = result.configuration
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
        var worst: ExitStatus?
        var steps: [Document.Step] = []
        for sequence in connect ? ProbeSequence.all(configuration) : [] {
            await sequence.run { outcome in
                if format.json {
                    steps.append(Self.step(sequence.subject, outcome))
                } else {
                    Self.show(Self.lines(sequence.subject, outcome).map { TerminalText.escape($0) }, console)
                }
                if case .failed(_, _, let status) = outcome.result { worst = worst ?? status }
            }
        }
        if format.json {
            try console.json(
                Document(path: result.path, sound: worst == nil, senders: senders, handlers: handlers, steps: steps)
            )
        }
        if let worst { throw CommandFailure(worst) }
    }

    private static func step(_ subject: String, _ outcome: ProbeSequence.Outcome) -> Document.Step {
        let (result, detail, fix): (String, String?, String?) =
            switch outcome.result {
            case .passed(let detail): ("ok", detail, nil)
            case .warned(let cause, let fix): ("warning", cause, fix)
            case .failed(let cause, let fix, _): ("failed", cause, fix)
            case .skipped: ("skipped", nil, nil)
            }
        return Document.Step(subject: subject, step: outcome.step, result: result, detail: detail, fix: fix)
    }

    private static func show(_ lines: [String], _ console: Terminal) {
        for (place, line) in lines.enumerated() {
            let mark = line.prefix(place == 0 && console.isColoured ? 8 : 0)
            console.data((Tone(state: String(mark))?.painted(mark) ?? String(mark)) + line.dropFirst(mark.count))
        }
    }

    private static func lines(_ subject: String, _ outcome: ProbeSequence.Outcome) -> [String] {
        let step = step(subject, outcome)
        let mark =
            switch step.result {
            case "ok": "ok      "
            case "warning": "warning "
            case "failed": "FAILED  "
            default: "-       "
            }
        // Texts of servers and libraries may have several lines.
        func indented(_ text: String) -> [String] { text.split(whereSeparator: \.isNewline).map { String($0) } }
        let head = indented("\(mark)\(subject): \(step.step): \(step.detail ?? "not tried")")
        let fix = step.fix.map { indented("        fix: \($0)") } ?? []
        return head.prefix(1) + head.dropFirst().map { "        " + $0 } + fix.prefix(1)
            + fix.dropFirst().map { "             " + $0 }
    }
}
