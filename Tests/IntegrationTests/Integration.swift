import Foundation
import Testing

/// The guarantees of the whole path, on a real PostgreSQL and the emulator.
///
/// Each test brings processes, event loops and a server to life: one at a time.
@Suite(.serialized) enum Integration {}

/// A condition did not come to hold.
struct WaitedTooLong: Error, CustomStringConvertible {
    var description: String
}

/// Waits for a condition, however slow the machine is; only a test that fails gets to the limit.
func waitUntil(
    _ what: String,
    limit: Duration = .seconds(60),
    _ condition: () async throws -> Bool
) async throws {
    let deadline = ContinuousClock.now + limit
    while try await !condition() {
        guard ContinuousClock.now < deadline else { throw WaitedTooLong(description: "not within \(limit): \(what)") }
        try await Task.sleep(for: .milliseconds(10))
    }
}

/// A folder that goes away with its owner.
final class TemporaryFolder: Sendable {
    let url: URL

    init() throws {
        url = URL(filePath: "/tmp/upstream-it-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Writes a file that only its owner can read, and gives its path.
    func write(_ bytes: some Sequence<UInt8>, as name: String) throws -> String {
        let file = url.appending(path: name)
        try Data(bytes).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        return file.path
    }
}
