import Digests
import Foundation
import MessageStore
import Pipeline
import Postgres
import Testing
import UpstreamKit
import Vocabulary

/// Databases that have been in use since the first migration, and workers that are at work while the next one is applied.
@Suite(.timeLimit(.minutes(3))) struct UpgradeTests {
    private static let sender = StoreFixture.senders[0]
    private static let token = "token-SECRET"

    /// The steps that have the tables of handlers, with the function that workers before 0011 store by.
    private static let firstWithHandlers = 2

    @Test("what was stored at each step is there after the last: found, deduplicated, delivered; and all steps go down")
    func rowsOfEveryStep() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let table = try UpgradeTable()
        let steps = Migration.embedded
        var before: [String] = []
        for number in 1...steps.count {
            _ = try await Migrator(Array(steps.prefix(number))).up(fixture.admin)
            let now = try await interface(fixture)
            let removed = Set(before).subtracting(now)
            let step = steps[number - 1].version
            if number > 1, table.isRolling(step) {
                #expect(removed.isEmpty, "\(step) is said to be rolling: workers of the step before miss this")
            }
            before = now
            try await use(fixture, number)
        }
        // The partitions ahead.
        _ = try await Migrator().up(fixture.admin)
        try await expectFound(fixture, steps.count)
        try await expectKnown(fixture, steps.count)
        try await expectDelivered(fixture, steps.count)
        #expect(try await fixture.count("conflicts") == 2)
        #expect(try await fixture.count("quarantine") == 1)
        #expect(try await fixture.count("replays") == 1)
        // Down step by step: messages stay until the step that made their table goes.
        for number in (1..<steps.count).reversed() {
            #expect(try await Migrator().down(fixture.admin) == [steps[number].version])
            #expect(try await fixture.count("messages") == Int64(steps.count + 1))
        }
        _ = try await Migrator().up(fixture.admin)
        try await expectFound(fixture, steps.count)
        #expect(try await Migrator().down(fixture.admin, all: true) == steps.map(\.version).reversed())
        #expect(try await Migrator().state(fixture.admin) == .missing)
    }

    @Test("workers receive while the schema goes on, from their own step to the last; nobody waits for long")
    func receivingMeanwhile() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let steps = Migration.embedded
        // The first step with the function that this release stores by: its writers are what an older worker's are.
        let first = try #require(steps.firstIndex { $0.up.contains("packed text[], block bigint,") }) + 1
        _ = try await Migrator(Array(steps.prefix(first))).up(fixture.admin)
        try await ensureDays(fixture)
        let load = Load(fixture, writers: 2)
        let longest = try await load.run { load in
            var longest: [String] = []
            for number in (first + 1)...steps.count {
                try await load.waitForCommits(3)
                _ = await load.takeLongest()
                _ = try await Migrator(Array(steps.prefix(number))).up(fixture.admin)
                try await load.waitForCommits(2)
                let wait = await load.takeLongest()
                #expect(wait < .seconds(3), "\(steps[number - 1].version) holds writers up for \(wait)")
                longest.append("\(steps[number - 1].version): \(wait.formatted(.units(allowed: [.milliseconds])))")
            }
            return longest
        }
        print("longest commit while a migration was applied: " + longest.joined(separator: ", "))
        let stored = await load.stored
        #expect(stored > 0)
        #expect(try await fixture.count("messages") == stored)
        #expect(try await fixture.count("message_ids") == stored)
        #expect(await load.failures.isEmpty)
    }

    @Test(
        "a migration that can't have its table gives up within 2 s, leaves nothing, and writers go on",
        arguments: [
            (
                "0013",
                "to_regclass('upstream.senders') IS NULL AND to_regclass('upstream.messages_message_id_idx') IS NOT NULL"
            ),
            (
                "0019",
                "NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = 'upstream.messages'::regclass AND attcompression = 'l')"
            ),
        ]
    )
    func lockedOut(_ version: String, nothingIsLeft: String) async throws {
        let fixture = try await StoreFixture(migrated: false)
        let steps = Migration.embedded
        let number = try #require(steps.firstIndex { $0.version == version })
        _ = try await Migrator(Array(steps.prefix(number))).up(fixture.admin)
        try await ensureDays(fixture)
        let reader = try await PostgresConnection.open(fixture.settings)
        try await reader.run { reader throws(PostgresError) in
            try reader.script("BEGIN; SELECT count(*) FROM upstream.messages")
        }
        let load = Load(fixture, writers: 2)
        try await load.run { load in
            try await load.waitForCommits(3)
            _ = await load.takeLongest()
            do {
                _ = try await Migrator(Array(steps.prefix(number + 1))).up(fixture.admin)
                Issue.record("the table is in use, and was changed")
            } catch MigrationError.database(let error, version: version) {
                #expect(error.failureClass == .lock, "\(error)")
            }
            try await load.waitForCommits(2)
            let wait = await load.takeLongest()
            print(
                "longest commit while \(version) waited for a reader: \(wait.formatted(.units(allowed: [.milliseconds])))"
            )
            // Behind the migration's own wait of 1.5 s, and no longer.
            #expect(wait > .seconds(1) && wait < .seconds(4), "\(wait)")
            #expect(try await fixture.text("SELECT (\(nothingIsLeft))::text") == "true")
            await reader.close()
            #expect(try await Migrator(Array(steps.prefix(number + 1))).up(fixture.admin) == [version])
            try await load.waitForCommits(2)
        }
        #expect(try await fixture.count("messages") == (await load.stored))
        #expect(await load.failures.isEmpty)
    }

    // MARK: what was there

    /// Stores at a step what the workers of its time would have stored.
    private func use(_ fixture: StoreFixture, _ number: Int) async throws {
        if number == 1 { try await useFirst(fixture) }
        if number == Self.firstWithHandlers { try await useSecond(fixture) }
        if number >= Self.firstWithHandlers { try await store("step-\(number)", fixture) }
        if number == 3 {
            try await fixture.script(
                """
                INSERT INTO upstream.replays (name, kind, target, occupies, selection, options, created_by, planned, state)
                VALUES ('old', 'handlers', 'orders', '{}', '{}', '{}', 'operator@test', 0, 'finished')
                """
            )
        }
    }

    /// Before there were handlers: plain inserts.
    private func useFirst(_ fixture: StoreFixture) async throws {
        try await ensureDays(fixture)
        let columns = """
            sender_id, message_id, registration_token, device_key, category, data, received_at
            """
        let values = """
            \(Self.key("step-1")), '\(Self.sender)', 'step-1', '\(Self.token)', \(Self.device), 'com.example.orders',
            '{"step": "step-1"}', now()
            """
        try await fixture.script(
            """
            BEGIN;
            INSERT INTO upstream.message_ids VALUES (\(Self.key("step-1")), \(Self.fingerprint(1)), now());
            INSERT INTO upstream.messages (message_key, \(columns)) VALUES (\(values));
            INSERT INTO upstream.conflicts (message_key, \(columns), fingerprint, times_seen, last_seen_at)
            VALUES (\(values), \(Self.fingerprint(2)), 1, now());
            INSERT INTO upstream.quarantine (
                sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at
            ) VALUES ('\(Self.sender)', 'odd', 'category_unusable', '', 'x', sha256('x'), 1, now(), now());
            COMMIT
            """
        )
    }

    /// A handler for everything, and a delivery of it that has failed for good.
    private func useSecond(_ fixture: StoreFixture) async throws {
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders');
            INSERT INTO upstream.subscriptions (handler, category) VALUES ('orders', '*')
            """
        )
        try await store("dead", fixture)
        try await fixture.script(
            """
            WITH gone AS (DELETE FROM upstream.deliveries WHERE message_key = \(Self.key("dead")) RETURNING *)
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
            ) SELECT handler, message_key, received_at, 20, now(), 1, 'status 500', 'status ###' FROM gone
            """
        )
    }

    /// What workers did from 0002 to 0010; the function is kept for them.
    private func store(_ id: String, _ fixture: StoreFixture) async throws {
        let stored = try await fixture.integer(
            """
            SELECT stored FROM upstream.store_messages(
                ARRAY[\(Self.key(id))], ARRAY[\(Self.fingerprint(1))], ARRAY[now()], ARRAY['\(Self.sender)'], ARRAY['\(id)'],
                ARRAY['\(Self.token)'], ARRAY[\(Self.device)], ARRAY['com.example.orders'],
                ARRAY['{"step": "\(id)"}'], ARRAY[NULL], ARRAY[NULL], ARRAY[NULL], ARRAY[NULL], 'old:1', 0, 60000000, '{}', '{}'
            )
            """
        )
        #expect(stored == 1, "\(id)")
    }

    private func ensureDays(_ fixture: StoreFixture) async throws {
        try await fixture.script(
            "SELECT upstream.ensure_partitions((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 1)"
        )
    }

    private static func key(_ id: String) -> String {
        let bytes = "convert_to('\(sender)', 'UTF8') || '\\x00' || convert_to('\(id)', 'UTF8')"
        return "encode(substring(sha256(\(bytes)) FOR 16), 'hex')::uuid"
    }

    private static let device = "encode(substring(sha256('\(token)') FOR 16), 'hex')::uuid"

    private static func fingerprint(_ number: Int) -> String { "'00000000-0000-0000-0000-00000000000\(number)'::uuid" }

    private static func ids(_ count: Int) -> [String] { ["dead"] + (1...count).map { "step-\($0)" } }

    /// The same message as this release's codec makes it.
    private static func copy(_ id: String, fingerprint: UInt64) -> IncomingMessage {
        var message = IncomingMessage.make(1, id: id, token: token, fingerprint: fingerprint)
        message.messageKey = Digest128(hashing: "\(sender)\0\(id)")
        message.isKeyedByDevice = false
        message.deviceKey = Digest128(hashing: token)
        return message
    }

    // MARK: what is there

    private func expectFound(_ fixture: StoreFixture, _ count: Int) async throws {
        for id in Self.ids(count) {
            let found = try await fixture.text(
                "SELECT string_agg(data::text, ',') FROM upstream.messages_with_id('\(id)')"
            )
            #expect(found == #"{"step": "\#(id)"}"#, "\(id)")
        }
        let senders = "SELECT string_agg(sender_id || ' ' || id_scope, ',') FROM upstream.senders"
        #expect(try await fixture.text(senders) == "\(Self.sender) sender")
    }

    /// Copies are duplicates, and other content under a known id is a conflict.
    private func expectKnown(_ fixture: StoreFixture, _ count: Int) async throws {
        let store = fixture.store()
        let copies = Self.ids(count).map { Self.copy($0, fingerprint: 1) }
        #expect(try await store.commit(copies) == copies.map { _ in .duplicate })
        #expect(try await store.commit([Self.copy("step-\(count)", fingerprint: 3)]) == [.conflict])
        #expect(try await store.commit([Self.copy("new", fingerprint: 1)]) == [.stored])
        try await fixture.script("DELETE FROM upstream.messages WHERE message_id = 'new'")
        try await fixture.script("DELETE FROM upstream.deliveries WHERE message_key = \(Self.key("new"))")
        await store.close()
    }

    /// Every delivery is claimed with its message and settled, and so is the dead letter once it is retried.
    private func expectDelivered(_ fixture: StoreFixture, _ count: Int) async throws {
        let deliveries = PostgresDeliveryStore(fixture.settings)
        _ = try await deliveries.register([.make("orders")])
        try await fixture.script(
            """
            WITH gone AS (DELETE FROM upstream.dead_letters RETURNING *)
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT handler, message_key, received_at, now() FROM gone
            """
        )
        let claimed = try await deliveries.claim(.make())
        let ids = claimed.compactMap { delivery -> String? in
            guard case .stored(let message) = delivery.content else { return nil }
            return message.messageID
        }
        #expect(ids.sorted() == Self.ids(count).filter { $0 != "step-1" }.sorted())
        #expect(try await deliveries.settle(claimed.map { $0.settled(.done) }, of: "orders") == claimed.count)
        #expect(try await fixture.count("deliveries") == 0)
        await deliveries.close()
    }

    /// What workers use: tables with their columns, functions with their parameters.
    private func interface(_ fixture: StoreFixture) async throws -> [String] {
        let text = try await fixture.text(
            """
            SELECT string_agg(line, E'\\n') FROM (
                SELECT format('%s.%s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod)) AS line
                FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition
                UNION ALL
                SELECT format('%s returns %s', oid::regprocedure, pg_get_function_result(oid)) FROM pg_proc
                WHERE pronamespace = 'upstream'::regnamespace
                UNION ALL
                SELECT format('%s may be left out', a.attrelid::regclass || '.' || a.attname)
                FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                    AND (NOT a.attnotnull OR a.atthasdef OR a.attidentity <> '')
            ) AS lines
            """
        )
        return (text ?? "").split(separator: "\n").map(String.init)
    }
}

/// The table of docs/upgrade.md: which migrations let workers of the step before go on.
private struct UpgradeTable {
    private let rows: [String: Bool]

    init() throws {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        let text = try String(contentsOf: root.appending(path: "docs/upgrade.md"), encoding: .utf8)
        var rows: [String: Bool] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("| 00") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            rows[cells[0]] = cells[1] == "yes"
        }
        self.rows = rows
        #expect(rows.keys.sorted() == Migration.embedded.map(\.version), "docs/upgrade.md has a row for each migration")
    }

    func isRolling(_ version: String) -> Bool { rows[version] ?? false }
}
