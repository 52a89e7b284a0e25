import Foundation
import Glibc
import Vocabulary

/// A worker in a process of its own, whose stderr goes to a file.
package final class WorkerProcess: Sendable {
    private let process = Process()
    private let log: URL

    package var id: Int32 { process.processIdentifier }

    init(program: URL, _ arguments: [String], log: URL) throws {
        self.log = log
        process.executableURL = program
        process.arguments = arguments
        // Settings in the environment are meant for another worker.
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("UPSTREAM_") }
        _ = FileManager.default.createFile(atPath: log.path, contents: nil)
        process.standardError = try FileHandle(forWritingTo: log)
        process.standardInput = FileHandle.nullDevice
        try process.run()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    /// Fails if the worker has ended by itself.
    package func check() throws {
        guard !process.isRunning else { return }
        let text = (try? String(contentsOf: log, encoding: .utf8)) ?? ""
        let lines = text.split(separator: "\n").suffix(5).joined(separator: "\n")
        throw CommandFailure(.internalError, "the worker ended with \(process.terminationStatus):\n\(lines)")
    }

    /// Terminates it, and kills it after ten seconds.
    package func stop() {
        guard process.isRunning else { return }
        process.terminate()
        let deadline = ContinuousClock.now + .seconds(10)
        while process.isRunning, ContinuousClock.now < deadline { usleep(10_000) }
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        process.waitUntilExit()
    }
}
