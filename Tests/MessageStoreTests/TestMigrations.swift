import Foundation
import MessageStore

/// Migrations that no release has, from `Tests/Fixtures/sql`.
enum TestMigrations {
    private struct Unpacking: Error { var status: Int32 }

    /// The project's folder.
    static let project = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let folder = project.appending(path: "Tests/Fixtures/sql")

    /// Those of this binary, and one that follows.
    static func withNext() throws -> [Migration] {
        let file = folder.appending(path: "9999_next.sql")
        return Migration.embedded + [
            Migration(fileName: file.lastPathComponent, text: try String(contentsOf: file, encoding: .utf8))
        ]
    }

    /// The 27 of the last build before 0.1.0, each after a line with its name.
    static func unreleased() throws -> [Migration] {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["gzip", "-dc", folder.appending(path: "migrations-before-0.1.0.sql.gz").path]
        process.standardOutput = output
        try process.run()
        let data = try output.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Unpacking(status: process.terminationStatus) }
        return String(decoding: data, as: UTF8.self).split(separator: "-- file: ").map { file in
            let name = file.prefix { $0 != "\n" }
            return Migration(fileName: String(name), text: String(file.dropFirst(name.count + 1)))
        }
    }
}
