package import Foundation

/// A folder that goes away with its owner.
package final class TemporaryFolder: Sendable {
    /// Where it is.
    package let url: URL

    /// Makes it.
    package init() throws {
        url = URL(filePath: "/tmp/upstream-it-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: url) }

    /// Writes a file that only its owner can read, and gives its path.
    package func write(_ bytes: some Sequence<UInt8>, as name: String) throws -> String {
        let file = url.appending(path: name)
        try Data(bytes).write(to: file)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: file.path)
        return file.path
    }
}
