import Foundation
import IntegrationSupport

/// A program that a test runs beside itself; it ends with its owner, and with the tests' process, however that ends.
final class ServerProcess: @unchecked Sendable {
    // Foundation's Process may be asked from any thread; it is started once, here.
    private let process = Process()
    private let input = Pipe()
    private let guardian = Process()
    private let lifeline = Pipe()

    /// Starts one.
    ///
    /// - Parameters:
    ///   - command: The program and its arguments.
    ///   - log: The file that its output is added to.
    ///   - environment: What is set beside the usual.
    ///   - folder: What is removed where the tests' process dies, and can't.
    /// - Throws: Where it can't be started.
    init(
        _ command: [String],
        log: String,
        _ environment: [String: String] = [:],
        removing folder: URL? = nil
    ) throws {
        if !FileManager.default.fileExists(atPath: log) { try Data().write(to: URL(filePath: log)) }
        process.executableURL = URL(filePath: command[0])
        process.arguments = Array(command.dropFirst())
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"].merging(environment) { $1 }
        process.standardInput = input
        let output = try FileHandle(forWritingTo: URL(filePath: log))
        try output.seekToEnd()
        process.standardOutput = output
        process.standardError = output
        // Threads of the pool block signals, and a child inherits that: it would not hear SIGTERM.
        var mask = sigset_t()
        var none = sigset_t()
        sigemptyset(&none)
        pthread_sigmask(SIG_SETMASK, &none, &mask)
        defer { pthread_sigmask(SIG_SETMASK, &mask, nil) }
        try process.run()
        // Ends the program once the other end of its standard input is closed: when this process has died, too.
        guardian.executableURL = URL(filePath: "/bin/sh")
        let script = "read -r _; kill -9 \"$1\" 2>/dev/null; [ -z \"$2\" ] || rm -rf \"$2\""
        guardian.arguments = ["-c", script, "sh", String(process.processIdentifier), folder?.path ?? ""]
        guardian.standardInput = lifeline
        guardian.standardOutput = FileHandle.nullDevice
        guardian.standardError = FileHandle.nullDevice
        do {
            try guardian.run()
        } catch {
            Glibc.kill(process.processIdentifier, SIGKILL)
            throw error
        }
    }

    deinit {
        if process.isRunning { Glibc.kill(process.processIdentifier, SIGKILL) }
        // Its work is done: the number may soon be another process's.
        if guardian.isRunning { Glibc.kill(guardian.processIdentifier, SIGKILL) }
    }

    var isRunning: Bool { process.isRunning }

    /// The exit code; the signal's number, below 0, where a signal ended it.
    var exitCode: Int32 {
        process.terminationReason == .exit ? process.terminationStatus : -process.terminationStatus
    }

    var processID: Int32 { process.processIdentifier }

    func write(_ text: String) throws { try input.fileHandleForWriting.write(contentsOf: Data(text.utf8)) }

    /// Ends it, by default without letting it say goodbye to its peers, and waits.
    func stop(_ signal: Int32 = SIGKILL) async throws {
        if process.isRunning { Glibc.kill(process.processIdentifier, signal) }
        try await waitUntil("\(process.executableURL?.lastPathComponent ?? "") ends") { !process.isRunning }
    }
}
