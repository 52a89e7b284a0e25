import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@testable import Console

@Suite("the API's description", .timeLimit(.minutes(10)))
struct OpenAPITests {
    @Test("every operation has a name of its own and a tag, and every schema that one refers to is there")
    func complete() async throws {
        let endpoints = try await SecrecyStage.server().endpoints
        let bytes = OpenAPIDocument.json(endpoints, version: "1.2.3")
        let document = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        let paths = try #require(document["paths"] as? [String: [String: [String: Any]]])
        let operations = paths.values.flatMap(\.values)
        #expect(Set(operations.compactMap { $0["operationId"] as? String }).count == endpoints.count)
        #expect(operations.allSatisfy { ($0["tags"] as? [String])?.count == 1 })
        let schemas = try #require((document["components"] as? [String: [String: Any]])?["schemas"])
        let references = String(decoding: bytes, as: UTF8.self).matches(of: #/#\/components\/schemas\/(\w+)/#)
        #expect(Set(references.map { String($0.output.1) }).subtracting(schemas.keys) == [])
        #expect((document["info"] as? [String: Any])?["version"] as? String == "1.2.3")
    }

    @Test("it is served to anybody")
    func served() async throws {
        try await ConsoleHarness.run { console in
            let reply = try await console.get("/api/v1/openapi.json", as: .nobody)
            #expect(reply.status == 200 && reply.object["openapi"] as? String == "3.1.0")
        }
    }

    @Test("schemathesis finds no answer that the description lacks, and no server error")
    func schemathesis() async throws {
        try await ConsoleHarness.run(Awkward.seeds) { console in
            try await console.database.add([Seed(id: "plain", data: #"{"other":1}"#, at: 99)], into: "conflicts")
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('orders');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT 'orders', message_key, received_at, now() FROM upstream.messages;
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
                ) SELECT 'billing', message_key, received_at, 1, now(), 0, 'timeout' FROM upstream.messages;
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
                ) VALUES ('1', 'payload_not_json', '', '\\x00ff1b', sha256('x'), 1, now(), now())
                """
            )
            let found = try await Schemathesis.run(console)
            #expect(found.status == 0, "\(found.output.suffix(6_000))")
        }
    }
}

/// The program of PyPI that tries an API out by its description.
enum Schemathesis {
    /// Runs it against a console, with a seed of its own that never changes and a bounded number of examples.
    static func run(_ console: ConsoleHarness) async throws -> (status: Int32, output: String) {
        let tests = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let tool = tests.deletingLastPathComponent().appending(path: ".build/test-tools/bin/schemathesis")
        try #require(
            FileManager.default.isExecutableFile(atPath: tool.path),
            "no \(tool.path): scripts/install-test-tools installs it"
        )
        let folder = FileManager.default.temporaryDirectory.appending(path: "schemathesis-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let output = folder.appending(path: "output")
        try Data().write(to: output)
        let process = Process()
        process.executableURL = tool
        process.currentDirectoryURL = folder
        process.arguments = [
            "run", "http://127.0.0.1:\(console.port)/api/v1/openapi.json",
            "--header", "Authorization: Bearer \(ConsoleHarness.Caller.viewer.token ?? "")",
            "--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--seed", "7",
            "--generation-database", "none", "--request-timeout", "20", "--warnings", "off",
            // With two, Hypothesis' search for a lambda's source fails now and then: its cache, and `ast.parse` of Python 3.11,
            // are not made for threads.
            "--workers", "1",
            // An endless stream is no answer that can be read whole.
            "--exclude-path", "/messages/stream",
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
                + "response_schema_conformance,unsupported_method",
            "--continue-on-failure", "--no-color",
        ]
        let handle = try FileHandle(forWritingTo: output)
        (process.standardOutput, process.standardError) = (handle, handle)
        let (ends, end) = AsyncStream<Int32>.makeStream()
        process.terminationHandler = { end.yield($0.terminationStatus) }
        try process.run()
        var status = ends.makeAsyncIterator()
        let code = await status.next() ?? -1
        return (code, String(decoding: try Data(contentsOf: output), as: UTF8.self))
    }
}
