package import Foundation

/// The programs of `Tests/Tools`, and the Python that runs them.
package enum TestTools {
    private static let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()

    /// A tool can't be used.
    package struct Unavailable: Error, CustomStringConvertible {
        /// Why, and what to do.
        package let description: String
    }

    /// The Python of `UPSTREAM_TEST_PYTHON`, else of `.build/test-tools`, which must have the packages of
    /// `Tests/Tools/requirements.txt`.
    ///
    /// - Throws: ``Unavailable``
    package static func python() throws -> String {
        let python =
            ProcessInfo.processInfo.environment["UPSTREAM_TEST_PYTHON"]
            ?? tests.deletingLastPathComponent().appending(path: ".build/test-tools/bin/python3").path
        guard FileManager.default.isExecutableFile(atPath: python) else {
            throw Unavailable(description: "no \(python); make it with scripts/install-test-tools")
        }
        return python
    }

    /// Runs a program to its end, in a folder, with `input` and what it prints in files there.
    ///
    /// What came with ``python()`` goes by its name, without a path.
    package static func run(
        _ program: String,
        _ arguments: [String],
        input: String = "",
        in folder: URL
    ) async throws -> (status: Int32, output: String, errors: String) {
        let own = URL(filePath: try python()).deletingLastPathComponent()
        let process = Process()
        process.executableURL = URL(filePath: program, relativeTo: own)
        (process.arguments, process.currentDirectoryURL) = (arguments, folder)
        let files = ["input", "output", "errors"].map { folder.appending(path: $0) }
        for file in files { try Data(file == files[0] ? input.utf8 : "".utf8).write(to: file) }
        process.standardInput = try FileHandle(forReadingFrom: files[0])
        process.standardOutput = try FileHandle(forWritingTo: files[1])
        process.standardError = try FileHandle(forWritingTo: files[2])
        let (ends, end) = AsyncStream<Int32>.makeStream()
        process.terminationHandler = { end.yield($0.terminationStatus) }
        try process.run()
        var status = ends.makeAsyncIterator()
        let code = await status.next() ?? -1
        let texts = try files.map { String(decoding: try Data(contentsOf: $0), as: UTF8.self) }
        return (code, texts[1], texts[2])
    }

    /// The path of one of the programs.
    package static func path(_ name: String) -> String { tests.appending(path: "Tools/\(name)").path }
}

/// A program of `Tests/Tools` that prints the port it listens on, and serves until its input ends.
package final class ToolServer: Sendable {
    /// Where it listens.
    package let port: Int
    private let input = Pipe()

    /// Starts it.
    ///
    /// - Throws: ``TestTools/Unavailable``
    package init(_ name: String, _ arguments: [String]) throws {
        let process = Process()
        process.executableURL = URL(filePath: try TestTools.python())
        process.arguments = [TestTools.path(name)] + arguments
        let output = Pipe()
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        var line = Data()
        while !line.contains(UInt8(ascii: "\n")) {
            let part = output.fileHandleForReading.availableData
            guard !part.isEmpty else { throw TestTools.Unavailable(description: "\(name) ended at once") }
            line += part
        }
        guard let port = Int(String(decoding: line, as: UTF8.self).trimmingCharacters(in: .newlines)) else {
            throw TestTools.Unavailable(description: "\(name) printed no port")
        }
        self.port = port
    }

    deinit {
        // The end of its input ends it.
        try? input.fileHandleForWriting.close()
    }
}
