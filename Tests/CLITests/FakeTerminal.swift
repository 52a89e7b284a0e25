import CLI
import Foundation
import Glibc
import IntegrationSupport
import QuerySupport

/// How a command ended, and what it wrote.
struct CommandRun {
    var status: Int32
    var output: String
    var errors: String

    /// The lines of its data.
    var lines: [Substring] { output.split(separator: "\n", omittingEmptySubsequences: false) }

    /// Its data as JSON values, one per line.
    func objects() throws -> [NSDictionary] {
        try output.utf8.split(separator: 0x0A).compactMap {
            try JSONSerialization.jsonObject(with: Data($0)) as? NSDictionary
        }
    }
}

/// Runs commands in this process, on a terminal of a given width or with all streams redirected.
struct FakeTerminal {
    /// The terminal's width; nil where the streams are no terminal.
    var columns: Int?
    /// The environment's variables.
    var environment: [String: String] = [:]
    /// Whether it shows colours, where the environment doesn't say otherwise.
    var hasColours = false

    /// Runs one command line to its end.
    ///
    /// - Parameters:
    ///   - arguments: The command line without the program's name.
    ///   - input: What is typed, or read.
    /// - Throws: Where a file of the test cannot be written or read.
    /// - Returns: How it ended.
    func run(_ arguments: [String], input: String = "") async throws -> CommandRun {
        let folder = try TemporaryFolder()
        let paths = try ["in", "out", "err"].map { try folder.write($0 == "in" ? Array(input.utf8) : [], as: $0) }
        let descriptors = paths.map { open($0, O_RDWR | O_APPEND | O_CLOEXEC) }
        defer { for descriptor in descriptors { close(descriptor) } }
        let streams = descriptors.map { Terminal.Stream($0, isTerminal: columns != nil) }
        let context = CommandContext(
            console: Terminal(
                input: streams[0],
                output: streams[1],
                errors: streams[2],
                columns: columns,
                environment: hasColours ? environment : ["NO_COLOR": "1"]
            ),
            environment: environment
        )
        let status = await WorkerProgram.run(arguments, in: context)
        let texts = try paths.map { String(decoding: try Data(contentsOf: URL(filePath: $0)), as: UTF8.self) }
        return CommandRun(status: status, output: texts[1], errors: texts[2])
    }
}

/// A database with messages, and a configuration that names it.
struct CommandStage {
    let fixture: QueryFixture
    let folder: TemporaryFolder
    let configuration: String

    init(_ seeds: [Seed] = []) async throws { try self.init(on: try await QueryFixture(seeds)) }

    /// Commands on a database that is there.
    init(on fixture: QueryFixture) throws {
        self.fixture = fixture
        folder = try TemporaryFolder()
        configuration = try folder.write("database: {url: \"\(fixture.url)\"}\n".utf8, as: "worker.yaml")
    }

    /// Runs a command with the configuration.
    func run(
        _ arguments: [String],
        columns: Int? = nil,
        input: String = "",
        colours: [String: String]? = nil
    ) async throws -> CommandRun {
        var terminal = FakeTerminal(columns: columns, environment: ["UPSTREAM_CONFIG": configuration])
        terminal.environment.merge(colours ?? [:]) { $1 }
        terminal.hasColours = colours != nil
        return try await terminal.run(arguments, input: input)
    }

    /// The key of a message.
    func key(_ id: String) async throws -> String {
        try await fixture.text("SELECT message_key::text FROM upstream.messages WHERE message_id = '\(id)'") ?? ""
    }
}
