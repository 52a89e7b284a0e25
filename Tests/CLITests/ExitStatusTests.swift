import Foundation
import Postgres
import Testing
import Vocabulary

@testable import CLI
@testable import Querying

/// The built program: exit codes, and what goes to stdout and to stderr.
struct ExitStatusTests {
    private struct Run {
        var status: Int32
        var output: String
        var errors: String
    }

    private func run(_ arguments: [String], _ environment: [String: String] = [:]) throws -> Run {
        let folder = URL(fileURLWithPath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
            .deletingLastPathComponent()
        let built = CommandLine.arguments.first.map { URL(fileURLWithPath: $0).deletingLastPathComponent() }
        let candidates = [folder, built, URL(fileURLWithPath: ".build/debug")].compactMap {
            $0?.appendingPathComponent("upstream-worker")
        }
        let program = try #require(candidates.first { FileManager.default.isExecutableFile(atPath: $0.path) })
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"].merging(environment) { $1 }
        let output = Pipe()
        let errors = Pipe()
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        let errorText = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return Run(
            status: process.terminationStatus,
            output: String(decoding: text, as: UTF8.self),
            errors: String(decoding: errorText, as: UTF8.self)
        )
    }

    private func withConfiguration<T>(_ yaml: String, _ body: (String) throws -> T) throws -> T {
        let path = NSTemporaryDirectory() + "worker-\(UUID().uuidString).yaml"
        try Data(yaml.utf8).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        return try body(path)
    }

    @Test("a reader that has had enough, as head, is no failure")
    func readerGone() {
        #expect(ExitStatus(ExportError(.readerGone, "gone")) == .ok)
        #expect(ExitStatus(ExportError(.output, "full")) == .temporaryFailure)
    }

    @Test("a day that a view or a foreign key of the site's depends on is no internal error")
    func dependants() {
        let error = PostgresError(
            sqlState: "2BP01",
            severity: "ERROR",
            message: "cannot drop table upstream.messages_20260301"
        )
        #expect(CommandFailure(error)?.status == .configuration)
    }

    @Test("an import that meets a time limit may be repeated: it is no internal error")
    func importLimit() {
        func failure(_ kind: StoreError.Kind) -> CommandFailure {
            ReplayImport.failure(StoreError(kind: kind, sqlState: "57014", message: "late", failureClass: .timeout))
        }
        #expect(failure(.timedOut).status == .temporaryFailure && failure(.unavailable).status == .unavailable)
        #expect(failure(.timedOut).message == "database: late\nrun the same command again: nothing is stored twice")
    }

    @Test("help and version are data, and examples come before options")
    func help() throws {
        let help = try run(["--help"])
        #expect(help.status == 0 && help.errors.isEmpty)
        let examples = try #require(help.output.range(of: "Examples:"))
        let options = try #require(help.output.range(of: "OPTIONS:"))
        #expect(examples.lowerBound < options.lowerBound)
        let version = try run(["--version"])
        #expect(version.status == 0 && version.output.contains("."))
    }

    @Test(
        "a wrong command line is 64",
        arguments: [
            ["nonsense"], ["check", "--nonsense"], ["migrate", "sideways"], ["check", "--set", "x"],
        ]
    )
    func usage(arguments: [String]) throws {
        let run = try run(arguments)
        #expect(run.status == 64 && run.output.isEmpty && !run.errors.isEmpty)
    }

    @Test("--config naming no file is 66")
    func noInput() throws {
        let run = try run(["check", "--config", "/nowhere/worker.yaml"])
        #expect(run.status == 66)
        #expect(run.errors.contains("can't read '/nowhere/worker.yaml': No such file or directory"))
    }

    @Test("a wrong configuration is 78, with all problems")
    func configuration() throws {
        try withConfiguration("database: {writers: 0}\nlogg: {}\n") { path in
            let run = try run(["check"], ["UPSTREAM_CONFIG": path])
            #expect(run.status == 78 && run.output.isEmpty)
            #expect(run.errors.contains("\(path):1:12: database.writers: must be"))
            #expect(run.errors.contains("\(path):2:1: logg: unknown key; did you mean 'log'?"))
            #expect(run.errors.contains("4 problems found."))
        }
    }

    @Test("a database that is down is 69, whoever asks")
    func unavailable() throws {
        let yaml = "database: {url: 'host=/nowhere dbname=upstream'}\n"
        try withConfiguration(yaml) { path in
            let status = try run(["migrate", "status", "--config", path])
            #expect(status.status == 69 && status.output.isEmpty)
        }
    }

    @Test("migrate down asks, or is told yes")
    func down() throws {
        try withConfiguration("database: {url: 'host=/nowhere dbname=upstream'}\n") { path in
            let run = try run(["migrate", "down", "--config", path])
            #expect(run.status == 64 && run.errors.contains("--yes"))
        }
    }
}
