import Foundation
import Glibc
import IntegrationSupport
import Testing

/// SIGHUP, which has a process read its configuration again, at odd moments.
@Suite("SIGHUP")
struct HangupTests {
    @Test(
        "before the configuration is read it does not end the process",
        .timeLimit(.minutes(4)),
        arguments: ["run", "console"]
    )
    func early(_ command: String) throws {
        let folder = try TemporaryFolder()
        let configuration = folder["pipe"]
        #expect(mkfifo(configuration, 0o600) == 0)
        let child = try Child([command, "--config", configuration], in: folder)
        // Opens once the process has opened it to read.
        let pipe = open(configuration, O_WRONLY)
        kill(child.process.processIdentifier, SIGHUP)
        _ = "nothing: 1\n".withCString { write(pipe, $0, strlen($0)) }
        close(pipe)
        let end = try child.wait()
        #expect(end.status == 78, "\(end)")
    }

    @Test("a configuration that can't be read to its end keeps no process from ending", .timeLimit(.minutes(4)))
    func endless() async throws {
        let folder = try TemporaryFolder()
        let configuration = folder["worker.yaml"]
        let yaml = "database: {url: \"postgresql://127.0.0.1:1/x\"}\nadmin: {listen: \"off\"}\n"
        try Data(yaml.utf8).write(to: URL(filePath: configuration))
        let child = try Child(["run", "--roles", "dispatch", "--config", configuration], in: folder)
        try await waitUntil { try child.peekMessages().contains("database.unavailable") }
        try FileManager.default.removeItem(atPath: configuration)
        #expect(mkfifo(configuration, 0o600) == 0)
        kill(child.process.processIdentifier, SIGHUP)
        // Opens once the process has opened it to read.
        let pipe = open(configuration, O_WRONLY)
        defer { close(pipe) }
        kill(child.process.processIdentifier, SIGTERM)
        #expect(try child.wait().status == 0)
    }
}
