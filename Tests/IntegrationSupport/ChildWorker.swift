package import Foundation

/// The program itself, `upstream-worker run`, as a process.
package final class ChildWorker: @unchecked Sendable {
    // Foundation's Process may be asked from any thread; it is started once, here.
    private let process = Process()
    private let log: URL
    /// The configuration's file.
    private let configuration: String

    /// Starts it; its configuration and its stderr are files of the folder.
    ///
    /// - Parameters:
    ///   - yaml: The configuration.
    ///   - folder: Where it and the log are put.
    ///   - program: Another executable than `upstream-worker`.
    ///   - command: Another command than `run`.
    ///   - arguments: What comes after it.
    ///   - environment: What is set beside the usual.
    /// - Throws: Where the program isn't built.
    package init(
        yaml: String,
        in folder: TemporaryFolder,
        program: URL? = nil,
        command: [String] = ["run"],
        _ arguments: [String] = [],
        _ environment: [String: String] = [:]
    ) throws {
        let tag = UInt32.random(in: 0...UInt32.max)
        configuration = try folder.write(yaml.utf8, as: "worker-\(tag).yaml")
        log = URL(filePath: try folder.write([], as: "worker-\(tag).log"))
        let executable = if let program { program } else { try ChildWorker.program() }
        process.executableURL = environment.isEmpty ? executable : ChildWorker.env
        process.arguments =
            (environment.isEmpty ? [] : [executable.path]) + command + ["--config", configuration] + arguments
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"].merging(environment) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: log)
        try process.run()
    }

    deinit { if process.isRunning { Glibc.kill(process.processIdentifier, SIGKILL) } }

    /// What a preloaded library may change the environment of, so that the program itself finds its own untouched: Swift finds a
    /// program's arguments by where its environment lies.
    package static let env = URL(filePath: "/usr/bin/env")

    /// The built program, beside the tests.
    package static func program() throws -> URL {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folders = [own, CommandLine.arguments.first ?? own].map { URL(filePath: $0).deletingLastPathComponent() }
        let candidates = (folders + [URL(filePath: ".build/debug")]).map { $0.appending(path: "upstream-worker") }
        guard let program = candidates.first(where: { FileManager.default.isExecutableFile(atPath: $0.path) }) else {
            throw WaitedTooLong(
                description: "upstream-worker is not built: swift build --product upstream-worker"
            )
        }
        return program
    }

    /// Its process.
    package var processID: Int32 { process.processIdentifier }

    /// Writes another configuration over the one that it was started with.
    package func rewrite(_ yaml: String) throws { try Data(yaml.utf8).write(to: URL(filePath: configuration)) }

    /// Its stderr so far.
    package func logText() throws -> String { try String(contentsOf: log, encoding: .utf8) }

    /// Sends it a signal.
    package func send(_ signal: Int32) { Glibc.kill(process.processIdentifier, signal) }

    /// Waits for an event in its log.
    package func waitForEvent(_ event: String, count: Int = 1) async throws {
        try await waitUntil("the worker logs \(event)") {
            let isRunning = process.isRunning
            let found = try events(event).count
            guard isRunning || found >= count else {
                throw WaitedTooLong(description: "the worker has ended: \(try logText())")
            }
            return found >= count
        }
    }

    /// The log's lines with this event.
    package func events(_ event: String) throws -> [[String: Any]] {
        try logText().split(separator: "\n").compactMap { line in
            let object = try? JSONSerialization.jsonObject(with: Data(line.utf8))
            return (object as? [String: Any]).flatMap { $0["event"] as? String == event ? $0 : nil }
        }
    }

    /// What its `/metrics` shows.
    package func scrape() async throws -> Exposition {
        try await waitForEvent("admin.listening")
        guard let port = try events("admin.listening").first?["port"] as? Int else {
            throw WaitedTooLong(description: "no port in admin.listening")
        }
        return try await Exposition.fetch(port: port)
    }

    /// Waits for its end and gives the exit code, or the signal's number below 0 where a signal ended it.
    ///
    /// The end of its log is printed unless it ended well or was killed: most tests expect that.
    package func exitCode() async throws -> Int32 {
        try await waitUntil("the worker ends") { !process.isRunning }
        let code = process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus
        if code != 0, code != -SIGKILL { print("the worker ended with \(code):\n\(try logText().suffix(3_000))") }
        return code
    }
}
