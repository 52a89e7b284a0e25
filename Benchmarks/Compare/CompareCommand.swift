import ArgumentParser
import CLI
import Foundation
import Vocabulary

/// Measures what developers decide by: ours beside a bare worker, the history of attempts, tracing.
@main
struct CompareCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "Compare",
        abstract: "What the guarantees, the history of attempts and tracing cost; what is compared takes turns.",
        discussion: """
            Examples:
              make compare ARGS="--only baseline --repeats 3"
              make compare ARGS="--only history,tracing --quick --messages 100000"

            Runs a private PostgreSQL, the emulator and the worker as `upstream-worker bench` does.
            """
    )

    /// A part that can be measured on its own.
    enum Part: String, CaseIterable, ExpressibleByArgument {
        /// Compared with the bare C worker.
        case baseline
        /// The cost of the history of attempts.
        case history
        /// The cost of tracing.
        case tracing
    }

    /// All results of a run.
    struct Report: Codable, Sendable {
        var baseline: [BaselineComparison.Comparison] = []
        var history: HistoryCost.Report?
        var tracing: TracingCost.Report?
        /// Violated guarantees: messages lost or acked twice.
        var problems: [String] = []
    }

    @OptionGroup var plan: BenchPlan
    @Option(help: ArgumentHelp("Parts to run, separated by commas: baseline, history, tracing.", valueName: "parts"))
    var only: String?
    @Option(help: ArgumentHelp("The worker to measure.", valueName: "program"))
    var worker = ".build/release/upstream-worker"
    @Option(help: ArgumentHelp("The bare C worker.", valueName: "program"))
    var baseline = ".build/baseline"
    @Option(help: "How often each is measured; medians are shown.")
    var repeats = 1
    @Option(help: "Messages a second of the paced run beside the bare worker; 0 for none.")
    var paced = 100

    func validate() throws {
        guard (1...99).contains(repeats), (0...10_000).contains(paced) else {
            throw ValidationError("--repeats takes 1 to 99, --paced 0 to 10000")
        }
        let programs = try parts().contains(.baseline) ? [worker, baseline] : [worker]
        for program in programs where !FileManager.default.isExecutableFile(atPath: program) {
            throw ValidationError("there is no program '\(program)'; make compare builds what is missing")
        }
    }

    func run() async throws {
        let (console, parts, command) = (Terminal.standard, try parts(), self)
        let report = try await BenchSite.with(worker: URL(filePath: worker), console) { site in
            try await command.measure(parts, site, console)
        }
        if plan.json { try console.json(report) } else { report.show(console) }
        guard report.problems.isEmpty else {
            console.message(report.problems.joined(separator: "\n"))
            throw ExitCode.failure
        }
    }

    private func parts() throws -> [Part] { try only.map { try Part.list($0, of: "--only") } ?? Part.allCases }

    private func measure(_ parts: [Part], _ site: BenchSite, _ console: Terminal) async throws -> Report {
        var report = Report()
        for part in parts {
            switch part {
            case .baseline:
                report.baseline = try await BaselineComparison(
                    plan: plan,
                    site: site,
                    console: console,
                    repeats: repeats,
                    program: URL(filePath: baseline),
                    paced: paced
                ).run(&report.problems)
            case .history:
                report.history = try await HistoryCost(plan: plan, site: site, console: console, repeats: repeats)
                    .run(&report.problems)
            case .tracing:
                report.tracing = try await TracingCost(plan: plan, site: site, console: console, repeats: repeats)
                    .run(&report.problems)
            }
        }
        return report
    }
}

extension CompareCommand.Report {
    /// Prints the figures with their goals.
    func show(_ console: Terminal) {
        if !baseline.isEmpty { console.table(BaselineComparison.table(baseline)) }
        let others = (history?.table ?? []) + (tracing?.table ?? [])
        if !others.isEmpty { console.table(TextTable(["MEASURE", "VALUE", "GOAL"], others)) }
    }
}

/// Formats a number with this many decimals.
func text(_ number: Double, _ digits: Int) -> String { String(format: "%.\(digits)f", number) }
