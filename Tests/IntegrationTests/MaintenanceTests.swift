import DatabaseSupport
import Foundation
import IntegrationSupport
import Postgres
import Testing

extension Integration {
    /// What people asked for in the console, done by those who may: a running worker, and the owner's command.
    @Suite struct MaintenanceTests {
        private static let (token, other) = ("APA91b:FAKE-token-to-forget", "APA91b:FAKE-token-to-keep")

        /// A database with a policy and a message of each of two devices, `days` ago, which a quarantined stanza holds as well.
        private func database(days: Int) async throws -> Database {
            let database = try await Database()
            try await database.script(
                """
                SELECT upstream.ensure_partitions(current_date - \(days), current_date - \(days));
                INSERT INTO upstream.retention_policy
                VALUES ('30 days', '35 days', '90 days', '7 days', 'test', now() - interval '1 day');
                INSERT INTO upstream.messages (
                    message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
                SELECT gen_random_uuid(), '1', 'm', token, left(encode(sha256(token::bytea), 'hex'), 32)::uuid, 'c', '{}',
                    now() - interval '\(days) days'
                FROM unnest(ARRAY['\(Self.token)', '\(Self.other)']) AS token;
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
                SELECT '1', 'payload_not_json', '', registration_token::bytea, sha256(registration_token::bytea), 1, now(), now()
                FROM upstream.messages
                """
            )
            return database
        }

        private func trail(_ database: Database, _ action: String) async throws -> [String] {
            try await database.texts(
                """
                SELECT concat_ws('|', who, via, action, subject, count, reason) FROM upstream.audit
                WHERE starts_with(action, '\(action)') ORDER BY id
                """
            )
        }

        @Test(
            "a running worker, with the least role, takes a request for retention, and notes what it did and for whom"
        )
        func worker() async throws {
            let database = try await database(days: 0)
            try await database.script(try DeployedRoles.scriptWithLogins())
            let folder = try TemporaryFolder()
            let url = database.url.replacingOccurrences(of: "user=upstream", with: "user=w")
            let yaml = "database: {url: \"\(url)\"}\nadmin: {listen: off}\nlog: {format: json}\n"
            let worker = try ChildWorker(yaml: yaml, in: folder, ["--roles", "dispatch"])
            // The day's own run is done: the next one would be tomorrow's.
            try await waitUntil("retention has run") { try await database.count("retention_runs") == 1 }
            try await database.script(
                """
                SELECT upstream.ensure_partitions(current_date - 50, current_date - 50);
                SELECT upstream.request_maintenance('retention', NULL, 'anna', 'disk full')
                """
            )
            try await waitUntil("the request is done") {
                try await database.count("maintenance_requests WHERE finished_at IS NOT NULL") == 1
            }
            worker.send(SIGTERM)
            #expect(try await worker.exitCode() == 0)
            let outcome = "SELECT state || ': ' || outcome FROM upstream.maintenance_requests"
            #expect(try await database.texts(outcome) == ["done: 1 day dropped, 0 rows deleted"])
            #expect(try await database.count("retention_runs") == 2)
            #expect(try await database.count("messages") == 2)
            #expect(
                try await trail(database, "partitions.run") == [
                    "anna|console|partitions.run|retention|disk full",
                    "anna|console|partitions.run.finished|retention: partitions dropped|1|disk full",
                ]
            )
        }

        @Test("a request that meets another run of retention does not fail: it is taken again")
        func busy() async throws {
            let database = try await database(days: 0)
            try await database.script(
                """
                SELECT upstream.ensure_partitions(current_date - 50, current_date - 50);
                SELECT upstream.request_maintenance('retention', NULL, 'anna', 'disk full')
                """
            )
            let session = try await PostgresConnection.open(PostgresSettings(url: database.url))
            try await session.run { connection throws(PostgresError) in
                try connection.script(
                    """
                    SET idle_in_transaction_session_timeout = 0; BEGIN;
                    SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))
                    """
                )
            }
            let folder = try TemporaryFolder()
            let yaml = "database: {url: \"\(database.url)\"}\nadmin: {listen: off}\nlog: {format: json}\n"
            let worker = try ChildWorker(yaml: yaml, in: folder, ["--roles", "dispatch"])
            try await waitUntil("the request was tried") {
                try await trail(database, "partitions.run.finished").count == 1
            }
            let state = "SELECT concat_ws(' ', state, outcome) FROM upstream.maintenance_requests"
            #expect(try await database.texts(state) == ["running"])
            await session.close()
            // As ten minutes later.
            try await database.script(
                "UPDATE upstream.maintenance_requests SET started_at = started_at - interval '11 minutes'"
            )
            try await waitUntil("the request is done") {
                try await database.texts(state) == ["done 1 day dropped, 0 rows deleted"]
            }
            worker.send(SIGTERM)
            #expect(try await worker.exitCode() == 0)
        }

        @Test("forget --requests: a device that can't be erased does not keep the next one from being erased")
        func apart() async throws {
            let database = try await database(days: 1)
            let folder = try TemporaryFolder()
            let config = try folder.write("database: {url: \"\(database.url)\"}\n".utf8, as: "config.yaml")
            try await database.script(
                """
                SELECT upstream.request_maintenance('forget', device_key, 'anna', 'she asked')
                FROM (SELECT device_key FROM upstream.messages ORDER BY registration_token) AS device;
                DO $$ BEGIN EXECUTE format(
                    'ALTER TABLE upstream.erasures ADD CONSTRAINT broken CHECK (device_key <> %L)',
                    (SELECT device_key FROM upstream.maintenance_requests ORDER BY id LIMIT 1)
                ); END $$
                """
            )
            func run() throws -> (CommandRun, [String]) {
                let run = try CommandRun(["forget", "--config", config, "--requests", "--json"])
                let done = try run.object()["requests"] as? [[String: Any]]
                return (run, try #require(done).compactMap { $0["state"] as? String })
            }
            let states = "SELECT state FROM upstream.maintenance_requests ORDER BY id"
            let (first, done) = try run()
            #expect(first.status != 0 && done == ["done"], "\(first.errors)")
            #expect(first.errors.contains("request 1, device ") && !first.errors.contains("FAKE"), "\(first.errors)")
            #expect(try await database.texts(states) == ["running", "done"])
            try await database.script("ALTER TABLE upstream.erasures DROP CONSTRAINT broken")
            let (second, rest) = try run()
            #expect(second.status == 0 && rest == ["done"], "\(second.errors)")
            #expect(try await database.texts(states) == ["done", "done"])
            #expect(try await database.count("messages") == 0)
        }

        @Test(
            "forget --requests: erases the device that was asked for, once, in the name of who asked, and is the owner's"
        )
        func forget() async throws {
            let database = try await database(days: 1)
            let folder = try TemporaryFolder()
            func run(_ arguments: String..., url: String? = nil) throws -> CommandRun {
                let yaml = "database: {url: \"\(url ?? database.url)\"}\n"
                let config = try folder.write(yaml.utf8, as: "config.yaml")
                let run = try CommandRun(["forget", "--config", config] + arguments)
                #expect(!run.output.contains("FAKE") && !run.errors.contains("FAKE"))
                return run
            }
            #expect(try run("--requests", "--token-file", "x").status == 64)
            let none = try run("--requests")
            #expect(none.status == 0 && none.errors.contains("nobody asked"), "\(none.errors)")
            try await database.script(
                """
                SELECT upstream.request_maintenance('forget', device_key, 'anna', 'she asked') FROM upstream.messages
                WHERE registration_token = '\(Self.token)'
                """
            )
            try await database.script(try DeployedRoles.script())
            let other = database.url.replacingOccurrences(of: "user=upstream", with: "user=upstream-console")
            let refused = try run("--requests", url: other)
            #expect(refused.status == 77 && refused.errors.contains("the tables' owner"), "\(refused.errors)")
            let dry = try run("--requests", "--dry-run", "--json")
            let counted = try #require((try dry.object()["requests"] as? [[String: Any]])?.first)
            #expect(counted["messages"] as? Int == 1 && counted["quarantine"] as? Int == 1, "\(counted)")
            #expect(counted["state"] as? String == "open" && counted["who"] as? String == "anna")
            #expect(try await database.count("messages") == 2)
            let done = try run("--requests")
            #expect(done.status == 0 && done.output.contains("anna") && done.output.contains("done"), "\(done.errors)")
            for table in ["messages WHERE registration_token", "quarantine WHERE stanza"] {
                #expect(try await database.count("\(table) = '\(Self.token)'") == 0, "\(table)")
                #expect(try await database.count("\(table) = '\(Self.other)'") == 1, "\(table)")
            }
            let trail = try await trail(database, "forget.finished")
            #expect(trail.count == 1 && trail[0].hasPrefix("anna|console|forget.finished|device "), "\(trail)")
            #expect(trail.first?.hasSuffix(", bodies: 1|2|she asked") == true, "\(trail)")
            #expect(try run("--requests").errors.contains("nobody asked"))
            #expect(try await self.trail(database, "forget.finished").count == 1)

            // Between request and run retention has dropped the day.
            try await database.script(
                """
                SELECT upstream.request_maintenance('forget', device_key, 'anna', 'she asked') FROM upstream.messages;
                DELETE FROM upstream.messages
                """
            )
            let partial = try run("--requests")
            #expect(
                partial.status == 1 && partial.errors.contains("the quarantine was not searched"),
                "\(partial.errors)"
            )
            #expect(try await database.count("quarantine") == 1)
        }
    }
}
