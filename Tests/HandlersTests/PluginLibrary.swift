import Foundation

/// A shared library built from a source of this package, once for the whole run of the tests.
final class PluginLibrary: Sendable {
    /// Why it could not be built.
    struct Failed: Error {
        var output: String
    }

    /// `Tests/Tools/plugin/faulty.c`: does what each message asks for.
    static let faulty = Result { try PluginLibrary(c: "Tests/Tools/plugin/faulty.c") }

    /// The package's folder.
    static let package = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// Where `upstream_plugin.h` is.
    static let include = package.appending(path: "Sources/PluginHost/include").path

    private let folder = URL(fileURLWithPath: "/tmp/upstream-plugin-\(UUID().uuidString)")

    /// The library's path.
    var path: String { folder.appending(path: "plugin.so").path }

    /// Compiles C, with these definitions.
    convenience init(c source: String, _ definitions: [String] = []) throws {
        try self.init {
            ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-I\(Self.include)", "-o", $0]
                + definitions.map { "-D\($0)" } + [Self.package.appending(path: source).path]
        }
    }

    /// Runs the command that `command` gives for the library's path.
    init(_ command: (String) -> [String]) throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        try Self.run(command(path))
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// Runs a command to its end.
    @discardableResult
    static func run(_ command: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(output: "\(command): \(text)") }
        return text
    }
}

/// A folder in which the faulty plugin notes what it is given, and by which processes.
final class PluginNotes: Sendable {
    let folder = URL(fileURLWithPath: "/tmp/upstream-plugin-notes-\(UUID().uuidString)")

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// The lines of a note: `opening`, `starts`, `calls`, `messages`, `children` or `closed`.
    func lines(_ name: String) -> [String] {
        let text = (try? String(contentsOf: folder.appending(path: name), encoding: .utf8)) ?? ""
        return text.split(separator: "\n").map(String.init)
    }

    /// How many messages each call had, in their order.
    var calls: [Int] { lines("calls").compactMap { $0.split(separator: " ").last.flatMap { Int($0) } } }

    /// How often messages with this text in their data were given to the plugin.
    func times(_ text: String) -> Int { lines("messages").count { $0.contains(text) } }

    /// The processes that opened the plugin.
    var starts: [Int32] { lines("starts").compactMap { Int32($0) } }
}

/// Whether a process runs; a zombie that waits for an init that a container doesn't have does not.
func isRunning(_ process: Int32) -> Bool {
    let text = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ""
    return !text.isEmpty && !text.contains(") Z ")
}
