import ConsoleSupport
import Foundation
import Postgres
import QuerySupport
import Testing

@Suite("the role upstream_console suffices for every route, and can do no more")
struct ConsoleRoleTests {
    /// Applies `deploy/roles.sql`, twice, and makes a login within the console's role.
    static func addRoles(_ database: QueryFixture) async throws {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let text = try String(contentsOf: root.appending(path: "deploy/roles.sql"), encoding: .utf8)
        // Without psql's own commands.
        let roles = text.split(separator: "\n").filter { !$0.hasPrefix("\\") }.joined(separator: "\n")
        for _ in 0..<2 {
            // Roles belong to the whole cluster, and tests run side by side.
            try await database.script(
                """
                BEGIN; SELECT pg_advisory_xact_lock(1); \(roles);
                DO $$ BEGIN
                    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'c') THEN
                        CREATE ROLE c LOGIN IN ROLE upstream_console;
                    END IF;
                END $$; COMMIT
                """
            )
        }
    }

    @Test("the role has what is listed here, and nothing else")
    func grants() async throws {
        let database = try await QueryFixture()
        try await Self.addRoles(database)
        let grants = try await database.text(
            """
            SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
                SELECT relname || ': ' || string_agg(lower(privilege_type), ' ' ORDER BY privilege_type) AS line
                FROM pg_class, aclexplode(relacl)
                WHERE relnamespace = 'upstream'::regnamespace AND grantee = 'upstream_console'::regrole
                    AND privilege_type <> 'SELECT'
                GROUP BY relname
                UNION ALL
                SELECT relname || '.' || attname || ': ' || lower(privilege_type)
                FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid, aclexplode(attacl)
                WHERE relnamespace = 'upstream'::regnamespace AND grantee = 'upstream_console'::regrole
                UNION ALL
                SELECT proname || ': ' || lower(privilege_type) FROM pg_proc, aclexplode(proacl)
                WHERE pronamespace = 'upstream'::regnamespace AND grantee = 'upstream_console'::regrole
                UNION ALL
                SELECT 'schema: ' || lower(privilege_type) FROM pg_namespace, aclexplode(nspacl)
                WHERE nspname = 'upstream' AND grantee = 'upstream_console'::regrole
            ) AS lines
            """
        )
        #expect(
            grants == """
                conflicts.released_at: update
                conflicts.released_by: update
                dead_letters: delete insert update
                deliveries.next_attempt_at: update
                deliveries: delete insert
                delivery_blocks: delete
                handlers.held_reason: update
                handlers.held_until: update
                handlers.paused: update
                handlers.paused_at: update
                handlers.paused_reason: update
                handlers.paused_until: update
                handlers.resumed_at: update
                handlers: delete
                idempotency_keys: delete insert update
                job_items: delete insert
                jobs: delete insert update
                quarantine.dismissed_at: update
                record_audit: execute
                replay_events: insert
                replay_messages: delete insert
                replays: insert update
                request_maintenance: execute
                schema: usage
                subscriptions: delete
                workers: delete
                """
        )
    }

    @Test("every page of the API is read with the role alone")
    func reads() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")], prepare: Self.addRoles, role: "c") { console in
            try await console.kill(3)
            let key = try await console.database.text("SELECT message_key::text FROM upstream.messages")
            for path in [
                "messages", "messages/\(key ?? "")", "messages/export", "overview", "workers", "senders", "handlers",
                "dead",
                "dead/groups", "deliveries", "quarantine", "quarantine/export", "conflicts", "replays", "jobs",
                "partitions", "audit",
                "history", "maintenance",
            ] {
                let reply = try await console.get("/api/v1/" + path, as: .operator_)
                #expect(reply.status == 200, "\(path): \(reply.text)")
            }
        }
    }

    @Test("every action works with the role alone")
    func works() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")], prepare: Self.addRoles, role: "c") { console in
            #expect(
                try await console.database.text("SELECT rolsuper::text FROM pg_roles WHERE rolname = 'c'") == "false"
            )
            try await console.kill(1_200)
            try await console.database.add([Seed(id: "m-1", data: #"{"a":2}"#)], into: "conflicts")
            try await console.database.script(
                """
                INSERT INTO upstream.handlers (name, seen_at) VALUES ('none', '2026-03-01Z');
                INSERT INTO upstream.subscriptions (handler, category) VALUES ('orders', '*'), ('none', 'none');
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                VALUES ('orders', gen_random_uuid(), now(), now() + interval '1 hour')
                """
            )
            let device = try await console.database.text("SELECT device_key::text FROM upstream.messages")
            let conflict = try await console.database.text(
                "SELECT message_key || '/' || fingerprint FROM upstream.conflicts"
            )
            for (path, body) in [
                ("handlers/orders/pause", "{}"), ("handlers/orders/resume", "{}"),
                ("deliveries/retry-now", #"{"all":true}"#), ("deliveries/cancel", #"{"handler":"none"}"#),
                ("deliveries/cancel", #"{"handler":"none","as_of":"2026-03-01T12:00:00Z"}"#),
                ("conflicts/\(conflict ?? "")/release", "{}"),
                ("replays/plan", #"{"name":"r","handlers":["orders"],"scope":"all"}"#), ("replays/r/start", "{}"),
                ("replays/r/pause", "{}"), ("replays/r/resume", "{}"), ("replays/r/cancel", "{}"),
                ("quarantine/dismiss", #"{"all":true}"#), ("handlers/none/remove", "{}"),
                ("handlers/none/remove", #"{"as_of":"2026-03-01T12:00:00Z"}"#),
                ("handlers/none/remove", #"{"as_of":"2026-03-01T12:00:01Z"}"#),
                ("partitions/run", "{}"), ("devices/\(device ?? "")/forget", "{}"),
                ("partitions/run", #"{"as_of":"2026-03-01T12:00:00Z","reason":"r"}"#),
                ("devices/\(device ?? "")/forget", #"{"as_of":"2026-03-01T12:00:00Z","reason":"r"}"#),
            ] {
                let reply = try await console.act(path, body)
                #expect((200...201).contains(reply.status), "\(path): \(reply.text)")
            }
            for path in ["dead/retry", "dead/discard"] {
                let set = try await console.act(path, #"{"all":true}"#)
                let id = set.object["id"] as? String ?? ""
                #expect(set.status == 201, "\(path): \(set.text)")
                #expect(try await console.act(path, "{\"id\":\"\(id)\"}").status == 202)
                #expect(try await console.ended(id)["done"] as? Int == 1_200, "\(path)")
                try await console.kill(1_200)
            }
            let set = try await console.act("dead/retry", #"{"all":true}"#)
            #expect(try await console.act("jobs/\(set.object["id"] as? String ?? "")/cancel").status == 200)
            let trail = try await console.get("/api/v1/audit?limit=500", as: .auditor)
            #expect(trail.items.count == 17, "\(trail.text)")
            #expect(trail.items.allSatisfy { $0["role"] as? String == "c" })
        }
    }

    @Test("the role changes no message, no entry of the trail, no schema, and calls nothing that does")
    func refused() async throws {
        let database = try await QueryFixture([Seed(id: "m-1")])
        try await Self.addRoles(database)
        let url = database.url.replacingOccurrences(of: "user=upstream", with: "user=c")
        let console = try await PostgresConnection.open(PostgresSettings(url: url))
        var statements = [
            "INSERT INTO upstream.messages SELECT * FROM upstream.messages",
            "UPDATE upstream.deliveries SET attempts = 0",
            "UPDATE upstream.deliveries SET lease_until = NULL",
            "INSERT INTO upstream.handlers (name) VALUES ('x')",
            "UPDATE upstream.handlers SET name = 'x'", "UPDATE upstream.subscriptions SET category = 'x'",
            "UPDATE upstream.quarantine SET stanza = ''",
            "DELETE FROM upstream.conflicts", "UPDATE upstream.conflicts SET data = '1'",
            "INSERT INTO upstream.audit (at, who, role, via, action, subject) VALUES (now(), '', '', 'console', '', '')",
            "UPDATE upstream.audit SET who = 'x'", "DELETE FROM upstream.replays", "DELETE FROM upstream.replay_events",
            "UPDATE upstream.retention_policy SET messages = '1 day'", "SELECT nextval('upstream.lease_tokens')",
            "CREATE TABLE upstream.x ()", "CREATE ROLE x", "ALTER TABLE upstream.audit DISABLE TRIGGER ALL",
            "SELECT upstream.ensure_partitions(current_date, current_date)",
            "SELECT upstream.drop_partition('2020-01-01')",
            "SELECT upstream.purge_conflicts(1)", "SELECT upstream.purge_quarantine(1)",
            "SELECT upstream.purge_dead_letters(1)", "SELECT upstream.purge_message_ids(0, 1)",
            "SELECT upstream.raise_retention('30 days', '35 days', '90 days', '7 days')",
            "SELECT upstream.set_retention('30 days', '35 days', '90 days', '7 days')",
            """
            INSERT INTO upstream.maintenance_requests (kind, who, reason, requested_at) VALUES ('retention', 'x', 'y', now())
            """,
            "UPDATE upstream.maintenance_requests SET state = 'done'", "DELETE FROM upstream.maintenance_requests",
            "SELECT upstream.take_retention_request()", "SELECT upstream.finish_retention_request(1, 'done', '')",
            "SELECT * FROM pg_authid", "COPY upstream.messages TO PROGRAM 'true'",
        ]
        for table in [
            "messages", "message_ids", "quarantine", "dead_messages", "audit", "schema_migrations", "senders",
        ] {
            statements.append("DELETE FROM upstream.\(table)")
            statements.append("TRUNCATE upstream.\(table)")
            statements.append("DROP TABLE upstream.\(table)")
        }
        for sql in statements {
            let error = await #expect(throws: PostgresError.self, "\(sql)") {
                try await console.run { connection throws(PostgresError) in try connection.script(sql) }
            }
            #expect(error?.sqlState == "42501", "\(sql): \(String(describing: error))")
        }
        await console.close()
    }
}
