import CLI
import Foundation
import Glibc
import LocalDatabase
import QuerySupport
import Testing

@Suite("files that can't be written or read")
struct FileTroubleTests {
    @Test(
        "the reason is the system's, not Foundation's name for it",
        arguments: [
            (["dev", "--folder", "/dev/null/x", "--count", "1"], "Not a directory"),
            (["emulate", "--listen", "127.0.0.1:0", "--write-ca", "/nowhere/ca.pem"], "No such file or directory"),
        ]
    )
    func commands(_ command: [String], _ reason: String) async throws {
        let run = try await FakeTerminal(columns: nil).run(command)
        #expect(run.status == 78 && run.errors.contains(reason), "\(run)")
        #expect(!run.errors.contains("Cocoa") && !run.errors.contains("Error Domain"), "\(run)")
    }

    @Test("data that does not fit on the disk is exit code 75, whatever command writes it")
    func fullDisk() async throws {
        let stage = try await CommandStage([Seed(id: "m")])
        let (full, errors) = (open("/dev/full", O_WRONLY | O_CLOEXEC), stage.folder["errors"])
        let other = open(errors, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0o600)
        defer { for descriptor in [full, other] { close(descriptor) } }
        let streams = [other, full, other].map { Terminal.Stream($0, isTerminal: false) }
        for command in [["messages", "show", "m"], ["messages", "list", "--table"], ["audit"], ["audit", "--json"]] {
            ftruncate(other, 0)
            let context = CommandContext(
                console: Terminal(input: streams[0], output: streams[1], errors: streams[2]),
                environment: ["UPSTREAM_CONFIG": stage.configuration]
            )
            #expect(await WorkerProgram.run(command, in: context) == 75, "\(command)")
            #expect(try String(contentsOfFile: errors, encoding: .utf8).contains("No space left"), "\(command)")
        }
    }

    @Test("whatever Foundation throws for a file has a reason in plain words")
    func reasons() throws {
        let missing = #expect(throws: (any Error).self) {
            _ = try String(contentsOf: URL(filePath: "/nowhere/x"), encoding: .utf8)
        }
        let folder = #expect(throws: (any Error).self) { _ = try Data(contentsOf: URL(filePath: "/")) }
        let listing = #expect(throws: (any Error).self) {
            _ = try FileManager.default.contentsOfDirectory(atPath: "/dev/null")
        }
        for error in [missing, folder, listing] {
            let reason = FileTrouble.reason(try #require(error))
            #expect(!reason.contains("Cocoa") && !reason.isEmpty, "\(reason)")
        }
        #expect(FileTrouble.reason(try #require(missing)) == "No such file or directory")
        #expect(FileTrouble.reason(POSIXError(.EACCES)) == "Permission denied")
    }
}
