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

    /// What builds before 0.1.0 had: first 27 migrations, then five, then the five that wake others after the commit.
    enum Unreleased: String, CaseIterable {
        case first = "migrations-before-0.1.0"
        case five = "migrations-five-before-0.1.0"
        case last = "migrations-woken-before-0.1.0"
    }

    /// The migrations of a build before 0.1.0; in the file, each stands after a line with its name.
    static func unreleased(_ build: Unreleased = .first) throws -> [Migration] {
        let (process, output) = (Process(), Pipe())
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["gzip", "-dc", folder.appending(path: build.rawValue + ".sql.gz").path]
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
