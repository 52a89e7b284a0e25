import Foundation
import Glibc
import IntegrationSupport
import Testing

/// A run of the program, its output in files so that no pipe can fill up.
final class Child {
    struct End {
        var status: Int32
        var output: String
        var messages: String

        func objects() throws -> [[String: Any]] {
            try output.utf8.split(separator: 0x0A).map {
                try #require(try JSONSerialization.jsonObject(with: Data($0)) as? [String: Any])
            }
        }
    }

    let process = Process()
    private let files: [String]

    /// Starts it, with a soft limit on descriptors if one is given.
    init(
        _ arguments: [String],
        in folder: TemporaryFolder,
        stdout: FileHandle? = nil,
        descriptors: Int? = nil
    ) throws {
        let tag = UInt32.random(in: 0...UInt32.max)
        files = ["out", "err"].map { folder["\(tag).\($0)"] }
        for file in files { try Data().write(to: URL(filePath: file)) }
        process.executableURL = try Child.program()
        process.arguments = arguments
        if let descriptors {
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments =
                ["-c", "ulimit -S -n \(descriptors) && exec \"$0\" \"$@\"", try Child.program().path] + arguments
        }
        process.environment = ["PATH": "/usr/bin:/bin", "LC_ALL": "C"]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try stdout ?? FileHandle(forWritingTo: URL(filePath: files[0]))
        process.standardError = try FileHandle(forWritingTo: URL(filePath: files[1]))
        try process.run()
    }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// Its output so far.
    func peek() throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: files[0])), as: UTF8.self)
    }

    /// What stands on stderr so far.
    func peekMessages() throws -> String {
        String(decoding: try Data(contentsOf: URL(filePath: files[1])), as: UTF8.self)
    }

    func wait() throws -> End {
        process.waitUntilExit()
        let texts = try files.map { String(decoding: try Data(contentsOf: URL(filePath: $0)), as: UTF8.self) }
        let isExit = process.terminationReason == .exit
        return End(
            status: isExit ? process.terminationStatus : -process.terminationStatus,
            output: texts[0],
            messages: texts[1]
        )
    }

    static func program() throws -> URL {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folders = [own, CommandLine.arguments.first ?? own].map {
            URL(filePath: $0).deletingLastPathComponent()
        }
        let candidates = (folders + [URL(filePath: ".build/debug")]).map { $0.appending(path: "upstream-worker") }
        return try #require(
            candidates.first { FileManager.default.isExecutableFile(atPath: $0.path) },
            "upstream-worker is not built"
        )
    }
}

extension TemporaryFolder {
    subscript(_ name: String) -> String { url.appending(path: name).path }
}
