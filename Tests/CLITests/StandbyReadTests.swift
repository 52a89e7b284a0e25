import ConsoleSupport
import Foundation
import IntegrationSupport
import LocalDatabase
import Postgres
import QuerySupport
import Querying
import Testing

/// `database.read_url` on a real streaming standby.
@Suite("reading from a standby", .serialized, .timeLimit(.minutes(5)))
struct StandbyReadTests {
    private static let shared = Task { try await StandbyStage() }

    private func stage() async throws -> StandbyStage {
        let stage = try await Self.shared.value
        try await stage.hold(false)
        return stage
    }

    private func ids(_ reply: ConsoleReply) -> [String] { reply.items.compactMap { $0["message_id"] as? String } }

    @Test("lists read there and say how far behind it is; what runs now, and audit, are of the primary")
    func commands() async throws {
        let stage = try await stage()
        try await stage.hold(true)
        try await stage.fixture.add([Seed(id: "late", at: 5)])
        try await stage.fixture.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
        for command in [["messages", "list", "--csv"], ["messages", "export"], ["messages", "tail"]] {
            let run = try await stage.commands.run(command)
            #expect(run.status == 0 && run.errors.contains("read from a standby, "), "\(command): \(run)")
            #expect(run.output.contains("early") && !run.output.contains("late"), "\(command): \(run)")
            #expect(run.errors.ranges(of: "read from a standby").count == 1, "\(command): \(run)")
        }
        // It ends once the standby has replayed what came until then.
        let end = Date(timeIntervalSinceNow: 2).ISO8601Format()
        async let following = stage.commands.run(["messages", "tail", "-f", "--until", end, "--overlap", "1s"])
        for command in [
            ["deliveries", "list"], ["dead", "list"], ["dead", "groups"], ["quarantine", "list"],
            ["conflicts", "list"],
        ] {
            let run = try await stage.commands.run(command)
            #expect(run.status == 0 && run.errors.contains(" behind"), "\(command): \(run)")
        }
        let key = try await stage.commands.key("late")
        #expect(try await stage.commands.run(["messages", "show", key]).status == 1)
        let handlers = try await stage.commands.run(["handlers", "list", "--json"])
        #expect(handlers.output.contains("orders") && !handlers.errors.contains("standby"), "\(handlers)")
        let audit = try await stage.commands.run(["audit", "--json"])
        let proof = try JSONSerialization.jsonObject(with: Data(audit.output.utf8)) as? NSDictionary
        let ledger = proof?["ledger"] as? NSDictionary
        #expect(ledger?["bodies"] as? Int == 2 && !audit.errors.contains("standby"), "\(audit)")
        try await stage.hold(false)
        let followed = try await following
        #expect(followed.status == 0 && followed.errors.ranges(of: "read from a standby").count == 1, "\(followed)")
        #expect(try await stage.commands.run(["messages", "show", key]).status == 0)
    }

    @Test("the console reads there, and says how far behind it is: in the foot of a page, in a header of the API")
    func console() async throws {
        let stage = try await stage()
        try await stage.hold(true)
        try await stage.fixture.add([Seed(id: "held-back", at: 6)])
        try await stage.console { console in
            try await waitUntil("the lag grows") {
                let reply = try await console.get("/api/v1/messages")
                #expect(!ids(reply).contains("held-back"))
                return Double(reply.header("Upstream-Read-Lag") ?? "") ?? 0 >= 0.2
            }
            let page = try await console.get("/messages")
            #expect(page.text.contains(#"<div id="read-lag" class="muted" data-live>Read from a standby, "#))
            #expect(page.text.contains(" behind.</div>") && !page.text.contains("held-back"))
            let export = try await console.get("/api/v1/messages/export")
            #expect(export.header("Upstream-Read-Lag") != nil && !export.text.contains("held-back"))
            // How things stand is of the primary: no lag.
            for path in ["/api/v1/overview", "/api/v1/handlers", "/api/v1/replays", "/", "/handlers", "/replays"] {
                let reply = try await console.get(path)
                #expect(reply.status == 200 && reply.header("Upstream-Read-Lag") == nil, "\(path)")
                #expect(!reply.text.contains("Read from a standby"), "\(path)")
            }
        }
        try await stage.hold(false)
        try await stage.console { console in
            let reply = try await console.get("/api/v1/messages")
            #expect(ids(reply).contains("held-back") && reply.header("Upstream-Read-Lag") == "0")
        }
    }

    @Test("an action reaches the primary, and who acted sees it at once; others once the standby has it")
    func action() async throws {
        let stage = try await stage()
        try await stage.hold(true)
        try await stage.console { console in
            @Sendable func reason(_ caller: ConsoleHarness.Caller) async throws -> (String?, lag: String?) {
                let reply = try await console.get("/api/v1/deliveries?handler=billing", as: caller)
                return (reply.items.first?["reason"] as? String, reply.header("Upstream-Read-Lag"))
            }
            #expect(try await reason(.operator_).0 == "retry")
            let done = try await console.post(
                "/api/v1/deliveries/retry-now",
                #"{"handler": "billing"}"#,
                headers: ["Idempotency-Key": "\"\(UUID().uuidString)\""]
            )
            #expect(done.status == 200, "\(done.text)")
            let (mine, others) = (try await reason(.operator_), try await reason(.viewer))
            #expect(mine.0 != "retry" && mine.lag == nil, "\(mine)")
            #expect(others.0 == "retry" && others.lag != nil, "\(others)")
            let page = try await console.get("/deliveries", as: .operator_)
            #expect(!page.text.contains("Read from a standby"))
            try await stage.hold(false)
            let (after, there) = (try await reason(.operator_), try await reason(.viewer))
            #expect(after.0 == mine.0 && after.lag == "0" && there.0 == mine.0, "\(after) \(there)")
        }
    }

    @Test("a statement that the standby cancels runs again; a second time it says so, with the fix")
    func conflict() async throws {
        let stage = try await stage()
        try await stage.fixture.script("CREATE TABLE app AS SELECT generate_series(1, 1000) AS n")
        try await stage.caughtUp()
        let reader = try await PostgresConnection.open(stage.settings)
        let asking: SQL = "SELECT n FROM (SELECT count(*) AS n FROM app) AS a CROSS JOIN (SELECT pg_sleep(1)) AS s"
        let churn = "UPDATE app SET n = n + 1"
        @Sendable func isAsking() async throws -> Bool {
            try await stage.text(
                "SELECT count(*)::text FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            ) == "1"
        }
        @Sendable func cancelled() async throws -> Int {
            let sql = "SELECT sum(confl_snapshot)::text FROM pg_stat_database_conflicts"
            return Int(try await stage.text(sql) ?? "") ?? 0
        }
        let before = try await cancelled()
        async let once = reader.result(of: asking).value(Int64.self)
        try await waitUntil("the statement runs", isAsking)
        try await stage.fixture.script(churn)
        try await stage.fixture.script("VACUUM app")
        #expect(try await once == 1_000)
        try await waitUntil("the cancelled statement is counted") { try await cancelled() == before + 1 }
        // Without end.
        let vacuum = Task {
            while !Task.isCancelled {
                try await stage.fixture.script(churn)
                try await stage.fixture.script("VACUUM app")
            }
        }
        await #expect {
            _ = try await reader.result(of: asking)
        } throws: {
            guard let error = $0 as? PostgresError else { return false }
            return error.sqlState == "40001" && error.standbyConflict == nil
                && error.ofReader.standbyConflict?.contains("hot_standby_feedback = on") == true
        }
        vacuum.cancel()
        _ = try? await vacuum.value
        await reader.close()
    }

    @Test("an idle primary is no lag, however old its last commit is")
    func idle() async throws {
        let stage = try await stage()
        try await waitUntil("the last commit is old") {
            try await stage.text("SELECT (now() - pg_last_xact_replay_timestamp() > '500 ms')::text") == "true"
        }
        let away = try await stage.away { connection throws(PostgresError) in try connection.readLag() }
        #expect(away.seconds == 0)
        let primary = try await stage.fixture.admin.readLag()
        #expect(primary.seconds == 0 && primary.note == nil && primary.field == "0")
    }

    @Test("a follower misses nothing that is replayed after its overlap")
    func follower() async throws {
        let stage = try await stage()
        let reader = try await PostgresConnection.open(stage.settings)
        var tail = try await MessageTail(MessageFilter(), overlap: .seconds(1), longInterval: .milliseconds(1), reader)
        try await stage.hold(true)
        try await stage.fixture.script(
            """
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
            SELECT gen_random_uuid(), '1', 'followed', 'FAKE-token', gen_random_uuid(), 'c', '{}', now()
            """
        )
        let start = ContinuousClock.now
        while ContinuousClock.now - start < .seconds(3) {
            _ = try await tail.poll(reader) { _, _ in Issue.record("it is not there yet") }
        }
        try await stage.hold(false)
        var seen = 0
        _ = try await tail.poll(reader) { _, _ in seen += 1 }
        #expect(seen == 1)
        await reader.close()
    }

    @Test("check --connect tries it, and doctor tells its lag")
    func checked() async throws {
        let stage = try await stage()
        let secret = try stage.commands.folder.write("FAKE-key\n".utf8, as: "key")
        let path = try stage.commands.folder.write(
            """
            database: {url: "\(stage.fixture.url)", read_url: "\(stage.readURL)"}
            senders: [{sender_id: "1", host: 127.0.0.1, port: 1, secret_file: \(secret)}]
            """.utf8,
            as: "checked.yaml"
        )
        let check = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path])
        #expect(check.output.contains("ok      database.read_url: reads: connected to "), "\(check)")
        #expect(check.output.contains(": read from a standby, "), "\(check)")
        let other = try await QueryFixture()
        let wrong = ["--set", "database.read_url=\(other.url)"]
        let warned = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path] + wrong)
        #expect(warned.output.contains("which has another database than database.url's server"), "\(warned)")
        let same = ["--set", "database.read_url=\(stage.fixture.url)"]
        let primary = try await FakeTerminal(columns: nil).run(["check", "--connect", "--config", path] + same)
        #expect(primary.output.contains("which is the primary: 0 s behind"), "\(primary)")
        let doctor = try await stage.commands.run(["doctor"])
        // On a busy machine the last bytes may not be replayed yet.
        #expect(doctor.output.contains(/read from a standby, \S+ m?s behind/), "\(doctor)")
    }

    @Test("where it is down reading says so and never falls back; actions go on")
    func down() async throws {
        let stage = try await stage()
        stage.standby.stop()
        let list = try await stage.commands.run(["messages", "list"])
        #expect(list.status == 69 && list.errors.hasPrefix("database.read_url: "), "\(list)")
        #expect(list.errors.contains("nothing is read at the primary instead") && list.output.isEmpty, "\(list)")
        #expect(try await stage.commands.run(["handlers", "list"]).status == 0)
        let doctor = try await stage.commands.run(["doctor"])
        #expect(doctor.status == 1 && doctor.output.contains("reads-down"), "\(doctor)")
        try await stage.console { console in
            let reply = try await console.get("/api/v1/messages")
            #expect(reply.status == 503 && reply.object["type"] as? String == "/problems/database-unavailable")
            #expect(reply.text.contains("database.read_url"), "\(reply.text)")
            #expect(try await console.get("/api/v1/handlers").status == 200)
            let done = try await console.post(
                "/api/v1/handlers/billing/pause",
                "{}",
                headers: ["Idempotency-Key": "\"\(UUID().uuidString)\""]
            )
            #expect(done.status == 200, "\(done.text)")
        }
    }
}
