import Foundation
import Glibc
import IntegrationSupport
import Testing

/// What asks a process to read its configuration again may come before it has read it once.
@Suite("SIGHUP at the start")
struct HangupTests {
    @Test("it does not end the process", .timeLimit(.minutes(4)), arguments: ["run", "console"])
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
}
