import Foundation
import Glibc
import IntegrationSupport
import Testing

@Suite("dev", .timeLimit(.minutes(10)))
struct DevTests {
    @Test("dev says that it stops, has what it sent acked, explains what is handled, and ends with its average rate")
    func dev() async throws {
        let folder = try TemporaryFolder()
        let child = try Child(["dev", "--rate", "3000", "--folder", folder["dev"]], in: folder)
        try await waitUntil("messages are acked") {
            try child.peekMessages().contains(/acked [1-9]/)
        }
        kill(child.process.processIdentifier, SIGINT)
        let end = try child.wait()
        #expect(end.status == 0, "\(end.messages)")
        #expect(end.messages.contains("\nstopping: "), "\(end.messages)")
        let shown = end.output
        #expect(shown.contains("\nclean  "), "\(shown)")
        #expect(shown.contains(/average +[0-9.,]+ acks\/s over [0-9.]+ s/), "\(shown)")
        #expect(shown.contains(/handled +[0-9]+: the sample handler takes com\.example\.orders only/), "\(shown)")
    }
}
