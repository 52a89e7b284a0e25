import CLI
import Foundation
import IntegrationSupport
import Testing

@Suite("command lines")
struct CommandLineTests {
    private let terminal = FakeTerminal(columns: 80)

    @Test(
        "the help of every command is data, and shows an example before the options",
        arguments: WorkerProgram.commands
    )
    func help(_ command: [String]) async throws {
        let run = try await terminal.run(command + ["--help"])
        #expect(run.status == 0 && run.errors.isEmpty)
        let examples = try #require(run.output.range(of: "Examples:"), "\(command)")
        let options = try #require(run.output.range(of: "OPTIONS:"), "\(command)")
        #expect(examples.lowerBound < options.lowerBound)
        #expect(run.output.contains("upstream-worker \(command.joined(separator: " "))"), "\(command)")
    }

    @Test(
        "an unknown option is exit code 64 and says where help is, for every command",
        arguments: WorkerProgram.commands
    )
    func unknownOption(_ command: [String]) async throws {
        let run = try await terminal.run(command + ["--nonsense"])
        #expect(run.status == 64 && run.output.isEmpty, "\(command)")
        #expect(run.errors.contains("--help"), "\(command): \(run.errors)")
    }

    @Test(
        "a wrong value is exit code 64 and says what is right",
        arguments: [
            (["run", "--roles", "cook"], "receive, dispatch"), (["check", "--set", "x"], "key=value"),
            (["dev", "--count", "0"], "1 or more"), (["dev", "--connections", "0"], "1 to 1000"),
            (["bench", "--only", "cooking"], "throughput"), (["bench", "--connections", "x"], "1,10"),
            (["bench", "--writers", "0"], "1 to 64"), (["emulate", "--listen", "here"], "ADDRESS:PORT"),
            (["emulate", "--certificate", "x"], "--key"), (["emulate", "--sender-id", "1"], "--secret-file"),
            (["emulate", "--size", "x"], "LEAST-MOST"), (["emulate", "--faults", "nothing"], "fault script"),
            (["handlers", "pause", "x", "--for", "soon"], "--for"), (["dead", "list", "--limit", "0"], "above zero"),
            (["dead", "list", "--message", "x"], "8-4-4-4-12"), (["dead", "show", "x"], "8-4-4-4-12"),
            (["dead", "retry"], "--all"), (["dead", "discard", "--yes"], "--all"),
            (["messages", "list", "--limit", "0"], "1 to 100000"), (["messages", "list", "--after", "x"], "a slash"),
            (["messages", "list", "--device", "x"], "--from-token-file"), (["messages", "tail", "--json"], "--ndjson"),
            (["messages", "list", "--since", "1h", "--until", "2h"], "--since must be before"),
            (["dead", "list", "--since", "1h", "--until", "2h"], "--since must be before"),
            (["quarantine", "list", "--since", "1h", "--until", "2h"], "--since must be before"),
            (["replay", "status", "x", "--csv"], "are for the list"),
            (["messages", "export", "--resume"], "--output"), (["quarantine", "list", "--reason", "x"], "category_"),
            (["quarantine", "show", "1", "--raw", "--json"], "only one"),
            (["conflicts", "show", "x"], "8-4-4-4-12"), (["conflicts", "list", "--limit", "0"], "1 to 1000"),
            (["replay", "plan"], "--to-handlers"), (["replay", "plan", "--to", "x"], "HOST:PORT"),
            (["replay", "plan", "a b", "--to-handlers"], "1-100"),
            (["replay", "status", "--limit", "0"], "above zero"),
            (["stats", "--categories=-1"], "zero or more"), (["migrate", "sideways"], "--help"),
        ]
    )
    func wrongValue(_ command: [String], _ fix: String) async throws {
        let run = try await terminal.run(command)
        #expect(run.status == 64, "\(command): \(run.status) \(run.errors)")
        #expect(run.output.isEmpty && run.errors.contains(fix), "\(command): \(run.errors)")
    }

    @Test(
        "without a terminal, what deletes asks for --yes with exit code 64 before it connects",
        arguments: [["migrate", "down"], ["dead", "discard", "--all"]]
    )
    func unasked(_ command: [String]) async throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("database: {url: 'host=/nowhere dbname=upstream'}\n".utf8, as: "worker.yaml")
        let piped = FakeTerminal(columns: nil, environment: ["UPSTREAM_CONFIG": path])
        let run = try await piped.run(command)
        #expect(run.status == 64 && run.errors.contains("--yes"), "\(run.errors)")
        let confirmed = try await piped.run(command + ["--yes"])
        #expect(confirmed.status == 69, "\(confirmed.errors)")
    }

    @Test("a missing file is exit code 66, a wrong configuration 78 with every problem, a database that is down 69")
    func configuration() async throws {
        let missing = try await terminal.run(["check", "--config", "/nowhere/worker.yaml"])
        #expect(missing.status == 66 && missing.errors.contains("/nowhere/worker.yaml"))
        let folder = try TemporaryFolder()
        let wrong = try folder.write("database: {writers: 0}\nlogg: {}\n".utf8, as: "wrong.yaml")
        let run = try await terminal.run(["check", "--config", wrong])
        #expect(run.status == 78 && run.output.isEmpty && run.errors.contains("4 problems found."))
        let down = try folder.write("database: {url: 'host=/nowhere dbname=upstream'}\n".utf8, as: "down.yaml")
        #expect(try await terminal.run(["migrate", "status", "--config", down]).status == 69)
    }
}
