import Foundation
import Testing

/// The program itself, as its hooks take over all tasks of a process.
@Suite("Simulated workers")
struct RunTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test("Two processes run a seed with every kind of fault in the same way, to the step")
    func repeats() throws {
        let first = try Self.run(["--seed", "4", "--messages", "300"])
        let second = try Self.run(["--seed", "4", "--messages", "300"])
        #expect(first.code == 0, "\(first.text)")
        let digest = try #require(first.text.firstMatch(of: /digest [0-9a-f]+/))
        #expect(second.text.contains(digest.0))
    }

    @Test("The guarantees hold for some seeds, and each runs twice in the same way")
    func holds() throws {
        let run = try Self.run(["--seeds", "1..12", "--messages", "200", "--twice"])
        #expect(run.code == 0, "\(run.text)")
    }

    @Test("Every place that a mutant changes is still there")
    func mutants() throws {
        let run = try Self.run(["--check"], Self.root.appending(path: "scripts/mutants"))
        #expect(run.code == 0, "\(run.text)")
    }

    @Test("An unknown kind of fault is a wrong usage")
    func unknownFault() throws {
        #expect(try Self.run(["--faults", "earthquake"]).code == 64)
    }

    private static func run(_ arguments: [String], _ program: URL? = nil) throws -> (code: Int32, text: String) {
        let process = Process()
        process.executableURL = try program ?? simulation()
        process.arguments = arguments
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, text)
    }

    /// The built program, beside the tests.
    private static func simulation() throws -> URL {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let folders = [own, CommandLine.arguments.first ?? own].map { URL(filePath: $0).deletingLastPathComponent() }
        let candidates = (folders + [root.appending(path: ".build/debug")]).map { $0.appending(path: "Simulation") }
        return try #require(candidates.first { FileManager.default.isExecutableFile(atPath: $0.path) })
    }
}
