import IntegrationSupport
import Testing

@testable import CLI

@Suite("mistyped command lines")
struct SuggestionTests {
    private let terminal = FakeTerminal(columns: 80)

    @Test(
        "a mistyped command is exit code 64 with the command that was meant, wherever --config stands",
        arguments: [
            (["mesages", "list"], "upstream-worker messages list"),
            (["message", "list"], "upstream-worker messages list"),
            (["mesages", "lst"], "upstream-worker messages list"),
            (["messages", "lst"], "upstream-worker messages list"),
            (["messages", "lst", "--config", "w.yaml"], "upstream-worker messages list"),
            (["--config", "w.yaml", "messages", "lst"], "upstream-worker messages list"),
            (["--config=w.yaml", "mesages", "list"], "upstream-worker messages list"),
            (["-c", "w.yaml", "runn"], "upstream-worker run"), (["runn", "--config", "w.yaml"], "upstream-worker run"),
            (["rpelay", "plan", "--to-handlers"], "upstream-worker replay plan"),
            (["retry", "--all"], "upstream-worker dead retry"), (["retry", "7"], "upstream-worker quarantine retry"),
            (["groups"], "upstream-worker dead groups"), (["help", "mesages"], "upstream-worker messages"),
            (["help", "messages", "lst"], "upstream-worker messages list"),
            (["dead", "grops", "--set", "a=b"], "upstream-worker dead groups"),
        ]
    )
    func command(_ arguments: [String], _ meant: String) async throws {
        let run = try await terminal.run(arguments)
        #expect(run.status == 64 && run.output.isEmpty, "\(run.status): \(run.output)")
        let lines = run.errors.split(separator: "\n")
        #expect(lines.first?.contains("Did you mean") == true, "\(run.errors)")
        #expect(lines.contains { $0 == "  \(meant)" }, "\(run.errors)")
        #expect(!run.errors.contains("w.yaml") && !run.errors.contains("Unknown option"), "\(run.errors)")
    }

    @Test("what resembles no command is answered with the commands that there are")
    func unknown() async throws {
        let run = try await terminal.run(["messages", "xylophone"])
        #expect(run.status == 64 && run.errors.contains("Commands: list, show, tail, export"), "\(run.errors)")
        #expect(run.errors.contains("'upstream-worker messages --help'"))
    }

    @Test(
        "a mistyped option is answered with the one that was meant",
        arguments: [
            (["messages", "list", "--sinc", "1h"], "'--sinc'. Did you mean '--since'?"),
            (["messages", "list", "--before=1h"], "'--before'. Did you mean '--until'?"),
            (["messages", "list", "--from", "1h"], "'--from'. Did you mean '--since'?"),
            (["run", "--conifg", "x"], "'--conifg'. Did you mean '--config'?"),
            (["check", "worker.yaml"], "'worker.yaml'. Did you mean '--config worker.yaml'?"),
        ]
    )
    func option(_ arguments: [String], _ hint: String) async throws {
        let run = try await terminal.run(arguments)
        #expect(run.status == 64 && run.errors.contains(hint), "\(run.errors)")
        for line in run.errors.split(separator: "\n") { #expect(line.count <= 80, "\(line)") }
    }

    @Test("no suggestion repeats the input", arguments: WorkerProgram.commands)
    func repeated(_ command: [String]) async throws {
        for option in ["--config", "--json", "--since"] {
            let run = try await terminal.run(command + ["\(option)=", "\(option)", "--zzz"])
            #expect(!run.errors.contains("Did you mean '\(option)'"), "\(command): \(run.errors)")
            // Whatever the parser calls unknown: it has its own opinion of where an option may stand.
            let improved = try CommandSuggestion(programName: "upstream-worker")
                .improve("Error: Unknown option '\(option)'", for: command + [option])
            #expect(improved.hasPrefix("Error: unknown option '\(option)'"), "\(improved)")
            #expect(!improved.contains("Did you mean '\(option)'"), "\(command): \(improved)")
        }
    }

    @Test("--config and --set may stand in front of the command")
    func order() async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("database: {writers: 0}\n".utf8, as: "worker.yaml")
        for arguments in [
            ["--config", path, "migrate", "status"], ["migrate", "--config", path, "status"],
            ["--config=\(path)", "migrate", "status"], ["--set", "log.level=info", "-c", path, "migrate", "status"],
        ] {
            let run = try await terminal.run(arguments)
            #expect(run.status == 78 && run.errors.contains("writers"), "\(arguments): \(run.errors)")
        }
        let dev = try await terminal.run(["--config", path, "dev", "--count", "0"])
        #expect(dev.status == 64, "\(dev.errors)")
    }
}
