import ConsoleSupport
import Foundation
import IntegrationSupport
import QuerySupport
import Testing
import Vocabulary

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

    @Test("what an operation takes has an example, unless its schema says all: a form, its words or a range")
    func examples() async throws {
        let says = ["examples", "format", "enum", "minimum", "boolean", "properties"]
        for endpoint in try await SecrecyStage.server().endpoints {
            // Places in a list are what an answer has given.
            let parameters = endpoint.parameters.filter { !["after", "Last-Event-ID"].contains($0.name.description) }
            let members = endpoint.body ?? []
            for (name, schema) in parameters.map({ ($0.name, $0.schema) }) + members.map({ ($0.name, $0.schema) }) {
                #expect(says.contains { schema.contains("\"\($0)\"") }, "\(endpoint.operation): \(name)")
            }
        }
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
        try await Self.withRows { console, folder in
            let found = try await TestTools.run(
                "schemathesis",
                [
                    "run", "http://127.0.0.1:\(console.port)/api/v1/openapi.json",
                    "--header", "Authorization: Bearer \(ConsoleHarness.Caller.viewer.token ?? "")",
                    // A seed of its own that never changes, and a bounded number of examples.
                    "--phases", "examples,coverage,fuzzing", "--max-examples", "12", "--seed", "7",
                    "--generation-database", "none", "--request-timeout", "20", "--warnings", "off",
                    // With two, Hypothesis' search for a lambda's source fails now and then: its cache, and `ast.parse` of
                    // Python 3.11, are not made for threads.
                    "--workers", "1",
                    // An endless stream is no answer that can be read whole.
                    "--exclude-path", "/messages/stream",
                    "--checks",
                    "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
                        + "response_schema_conformance,unsupported_method",
                    "--continue-on-failure", "--no-color",
                ],
                in: folder
            )
            #expect(found.status == 0, "\((found.output + found.errors).suffix(6_000))")
        }
    }

    @Test("the client that openapi-python-client generates is imported, lists every resource, and pauses a handler")
    func client() async throws {
        try await Self.withRows { console, folder in
            let found = try await TestTools.run(
                TestTools.python(),
                [TestTools.path("api_client.py"), "http://127.0.0.1:\(console.port)/api/v1", folder.path],
                input: ConsoleHarness.Caller.operator_.token ?? "",
                in: folder
            )
            try #require(found.status == 0, "\(found.errors.suffix(6_000))")
            let results = try #require(
                try JSONSerialization.jsonObject(with: Data(found.output.utf8)) as? [String: Any]
            )
            let keyless = try await SecrecyStage.server().endpoints.filter {
                $0.body == nil && !$0.parameters.contains(where: \.isRequired)
                    && $0.operation.description != "streamMessages"
            }
            #expect(Set(results.keys) == Set(keyless.map(\.operation.description)).union(["pauseHandler"]))
            for kind in ["Messages", "Conflicts", "DeadLetters", "Deliveries", "Handlers", "Quarantine"] {
                #expect(results["list\(kind)"] as? Int ?? 0 > 0, "\(kind)")
            }
            #expect((results["pauseHandler"] as? [String: Any])?["paused"] as? Bool == true)
        }
    }

    @Test("the tasks of docs/api.md, as they stand there: find, retry, replay, watch, by curl and the generated client")
    func tasks() async throws {
        let recent = Int64(Date().timeIntervalSince1970 * 1e6) - QueryFixture.start.microseconds - 60_000_000
        try await ConsoleHarness.run((1...3).map { Seed(id: "m\($0)", at: recent + Int64($0)) }) { console in
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('billing'), ('shipping');
                INSERT INTO upstream.dead_letters (
                    handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group
                ) SELECT 'billing', message_key, received_at, 1, now(), 0,
                    CASE message_id WHEN 'm1' THEN 'status 503' ELSE 'timeout' END
                FROM upstream.messages WHERE message_id <> 'm3'
                """
            )
            let folder = try TemporaryFolder()
            let run = try await TestTools.run(
                TestTools.python(),
                [TestTools.path("api_tasks.py"), "http://127.0.0.1:\(console.port)", folder.url.path],
                input: ConsoleHarness.Caller.operator_.token ?? "",
                in: folder.url
            )
            try #require(run.status == 0, "\(run.errors.suffix(6_000))")
            let found = try #require(try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? [String: Any])
            let lines = try #require(found["shell"] as? [String])
            try #require(lines.count == 4, "\(lines)")
            #expect(lines[0].contains(#""message_id":"m3""#) && lines[1].contains(#""rate":100"#), "\(lines)")
            #expect(lines[2].contains(#""changed":true"#) && lines[3].hasPrefix("data: {"), "\(lines)")
            #expect((found["found"] as? [String])?.sorted() == ["m1", "m2", "m3"])
            let job = try #require(found["job"] as? [String: Any])
            #expect(job["planned"] as? Int == 1 && job["reason"] as? String == "mended")
            #expect((found["started"] as? [String: Any])?["changed"] as? Bool == true)
            #expect((found["message"] as? String)?.hasPrefix("data: {") == true)
            let replays = "SELECT string_agg(handlers[1] || ' ' || state, ', ' ORDER BY handlers) FROM upstream.replays"
            #expect(try await console.database.text(replays) == "billing running, shipping running")
        }
    }

    /// Lends a console over some rows of each kind, and a folder.
    private static func withRows(_ body: @escaping @Sendable (ConsoleHarness, URL) async throws -> Void) async throws {
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
            let folder = FileManager.default.temporaryDirectory.appending(path: "api-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try await body(console, folder)
        }
    }
}
