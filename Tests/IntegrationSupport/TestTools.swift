import Foundation

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
