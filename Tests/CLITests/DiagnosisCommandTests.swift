import DatabaseSupport
import Foundation
import IntegrationSupport
import LocalDatabase
import Postgres
import QuerySupport
import Testing

@Suite("doctor and audit as commands", .timeLimit(.minutes(4)))
struct DiagnosisCommandTests {
    private func stage() async throws -> CommandStage {
        try await CommandStage((0..<30).map { Seed(id: "m\($0)", at: Int64($0)) })
    }

    private func object(_ run: CommandRun) throws -> NSDictionary {
        try #require(try JSONSerialization.jsonObject(with: Data(run.output.utf8)) as? NSDictionary)
    }

    @Test("doctor's exit code says whether anything calls for an action, and its text has names and fixes")
    func doctor() async throws {
        let stage = try await stage()
        let run = try await stage.run(["doctor"], columns: 100)
        #expect(run.status == 1 && run.errors.isEmpty, "\(run.errors)")
        #expect(run.output.contains("critical  no-workers"), "\(run.output)")
        #expect(run.output.contains("fix       upstream-worker check --connect"))
        #expect(run.lines.dropLast().last?.contains("critical") == true && run.lines.allSatisfy { $0.count <= 100 })
        let json = try object(try await stage.run(["doctor", "--json"]))
        #expect(json["healthy"] as? Bool == false)
        let findings = try #require(json["findings"] as? [NSDictionary])
        #expect(findings.contains { $0["name"] as? String == "no-workers" && $0["severity"] as? String == "critical" })
        #expect(findings.first?["severity"] as? String == "critical" && findings.allSatisfy { $0["fix"] is String })
        let down = try stage.folder.write("database: {url: 'host=/nowhere dbname=upstream'}\n".utf8, as: "down.yaml")
        #expect(try await stage.run(["doctor", "--config", down]).status == 69)
        #expect(try await stage.run(["audit", "--config", down]).status == 69)
    }

    @Test("doctor is 0 where nothing calls for an action: a note doesn't; what does makes it 1 again")
    func healthy() async throws {
        // Of its own: the other tests' servers do without fsync, which is critical.
        var options = LocalCluster.Options()
        options.isTemporary = true
        let place = "/tmp/upstream-healthy-\(getpid())-\(UInt32.random(in: 0...UInt32.max))"
        let cluster = try LocalCluster.start(in: URL(filePath: place), options)
        defer { cluster.stop() }
        let database = try await TestDatabase(on: cluster)
        try await database.script(HealthySystem.rows)
        let folder = try TemporaryFolder()
        let path = try folder.write("database: {url: \"\(database.url)\"}\n".utf8, as: "worker.yaml")
        func run(_ arguments: String...) async throws -> CommandRun {
            try await FakeTerminal(columns: nil).run(["doctor", "--config", path] + arguments)
        }
        let text = try await run()
        #expect(text.status == 0 && text.errors.isEmpty, "\(text.output)\(text.errors)")
        #expect(text.output.contains("note  no-standby") && text.output.hasSuffix("\n1 note\n"), "\(text.output)")
        let json = try object(try await run("--json"))
        #expect(json["healthy"] as? Bool == true && (json["findings"] as? [NSDictionary])?.count == 1)
        // The server is young: that a worker has been silent since before its start says nothing yet.
        try await database.script("DELETE FROM upstream.workers")
        let silent = try await run("--json")
        #expect(try silent.status == 1 && object(silent)["healthy"] as? Bool == false)
    }

    @Test(
        "audit is 0 where everything adds up, and 1 with the key where a body is gone; progress goes to a terminal alone"
    )
    func audit() async throws {
        let stage = try await stage()
        let sound = try await stage.run(["audit"])
        #expect(sound.status == 0 && sound.errors.isEmpty, "\(sound.output)\(sound.errors)")
        #expect(sound.output.contains("ledger 30 = bodies 30") && !sound.output.contains("WRONG"))
        let key = try await stage.key("m5")
        try await stage.fixture.script("DELETE FROM upstream.messages WHERE message_id = 'm5'")
        let wrong = try await stage.run(["audit"], columns: 80)
        #expect(wrong.status == 1 && wrong.output.contains("ledger 30 = bodies 29 + MISSING 1"), "\(wrong.output)")
        #expect(wrong.output.contains("ledger-has-body:\n  \(key)\n") && wrong.output.contains("1 WRONG"))
        #expect(wrong.errors.contains("\r\u{1B}[K") && !wrong.output.contains("\u{1B}"))
        let json = try object(try await stage.run(["audit", "--json"]))
        #expect(json["sound"] as? Bool == false && (json["ledger"] as? NSDictionary)?["missing"] as? Int == 1)
        let narrow = try await stage.run(["audit", "--since", "2026-03-02"])
        #expect(narrow.status == 0 && narrow.output.contains("ledger 0 = bodies 0"))
    }

    @Test("an audit that is held up too long says what to do about it")
    func timeLimit() async throws {
        let stage = try await stage()
        let other = try await PostgresConnection.open(stage.fixture.settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script("BEGIN; LOCK TABLE upstream.messages IN ACCESS EXCLUSIVE MODE")
        }
        let run = try await stage.run(["audit", "--timeout", "300ms"])
        #expect(run.status == 75 && run.errors.contains("--since and --until"), "\(run.errors)")
        await other.close()
    }

    @Test("audit --against names what a file knows and the database does not; its own export is known throughout")
    func against() async throws {
        let stage = try await stage()
        let export = stage.folder.url.appending(path: "all.ndjson").path
        #expect(try await stage.run(["messages", "export", "--output", export]).status == 0)
        let known = try await stage.run(["audit", "--against", export])
        #expect(
            known.status == 0 && known.output.contains("acked-is-known             30         ok"),
            "\(known.output)"
        )
        let lost = try stage.folder.write(
            """
            {"sender_id":"1234567890","message_id":"m1"}
            {"sender_id":"1234567890","message_id":"never"}
            """.utf8,
            as: "acks.ndjson"
        )
        let wrong = try await stage.run(["audit", "--against", lost])
        #expect(wrong.status == 1 && wrong.output.contains("acked-is-known:\n  1234567890 never\n"), "\(wrong.output)")
        #expect(try await stage.run(["audit", "--against", "/nowhere/acks"]).status == 66)
        let other = try stage.folder.write("[1]\n".utf8, as: "other.ndjson")
        let bad = try await stage.run(["audit", "--against", other])
        #expect(bad.status == 65 && bad.errors.contains("other.ndjson:1: not a JSON object"), "\(bad.errors)")
    }
}
