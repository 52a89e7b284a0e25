import Foundation
import LocalDatabase
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
