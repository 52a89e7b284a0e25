import Foundation
import IntegrationSupport
import Testing

/// A limit of 1,024 is what a shell, a container and systemd give by default.
@Suite("descriptors")
struct DescriptorLimitTests {
    @Test("the program raises its limit as far as it may", .timeLimit(.minutes(4)))
    func raised() async throws {
        let folder = try TemporaryFolder()
        let child = try Child(["emulate", "--listen", "127.0.0.1:0", "--tls", "none"], in: folder, descriptors: 64)
        try await waitUntil { try child.peekMessages().contains("listening") || child.peek().contains("listening") }
        let limits = try String(contentsOfFile: "/proc/\(child.process.processIdentifier)/limits", encoding: .utf8)
        let line = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max open files") })
        let (soft, hard) = try #require(
            line.firstMatch(of: /(\d+) +(\d+|unlimited)/).map { (Int($0.1), Int($0.2) ?? .max) }
        )
        #expect(soft == min(hard, 65_536))
        child.process.terminate()
        _ = try child.wait()
    }
}
