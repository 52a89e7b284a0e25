import Digests
import Dispatcher
import Foundation
import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

/// Databases that are in use, and workers that are at work, while the next migration is applied; and the schema from before 0.1.0.
@Suite(.timeLimit(.minutes(10))) struct UpgradeTests {
    private static let sender = StoreFixture.senders[0]
    private static let token = "token-SECRET"

    /// Everything that the catalog says of the schema, a line for each thing.
    private static let catalog = """
        SELECT string_agg(line, E'\\n') FROM (
            SELECT format('relation %s %s %s %s %s %s', relname, relkind, relreplident, reloptions, (
                SELECT string_agg(a::text, ' ' ORDER BY a::text)
                FROM unnest(coalesce(relacl, acldefault((CASE relkind WHEN 'S' THEN 's' ELSE 'r' END)::"char", relowner))) AS a
                WHERE a::text NOT LIKE 'upstream\\_%=%'
            ), pg_get_expr(relpartbound, oid)) AS line
            FROM pg_class WHERE relnamespace = 'upstream'::regnamespace
            UNION ALL
            SELECT format('column %s.%s %s', attrelid::regclass, attname, concat_ws(' ', attnum,
                format_type(atttypid, atttypmod), attnotnull, attidentity, attstorage, attcompression, attstattarget,
                attoptions, pg_get_expr(adbin, adrelid), col_description(attrelid, attnum)))
            FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid AND attnum > 0
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
            WHERE relnamespace = 'upstream'::regnamespace
            UNION ALL SELECT format('index %s %s', indexdef, tablename) FROM pg_indexes WHERE schemaname = 'upstream'
            UNION ALL
            SELECT format('constraint %s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
            WHERE connamespace = 'upstream'::regnamespace
            UNION ALL
            SELECT 'trigger ' || pg_get_triggerdef(oid) FROM pg_trigger
            WHERE tgrelid::regclass::text LIKE 'upstream.%' AND NOT tgisinternal
            UNION ALL
            SELECT 'view ' || definition FROM pg_views WHERE schemaname = 'upstream'
            UNION ALL
            SELECT format('function %s %s %s', oid::regprocedure, (
                SELECT string_agg(a::text, ' ' ORDER BY a::text)
                FROM unnest(coalesce(proacl, acldefault('f', proowner))) AS a
                -- Old steps gave rights to roles that were there; deploy/roles.sql gives them, UpgradeRightsTests.
                WHERE a::text NOT LIKE 'upstream\\_%=%'
            ), replace(pg_get_functiondef(oid), E'\\n', ' '))
            FROM pg_proc WHERE pronamespace = 'upstream'::regnamespace
            UNION ALL
            SELECT format('comment %s %s', pg_describe_object(classoid, objoid, objsubid), description)
            FROM pg_description
            WHERE classoid = 'pg_proc'::regclass
                AND objoid IN (SELECT oid FROM pg_proc WHERE pronamespace = 'upstream'::regnamespace)
                OR classoid = 'pg_class'::regclass AND objsubid = 0
                AND objoid IN (SELECT oid FROM pg_class WHERE relnamespace = 'upstream'::regnamespace)
        ) AS lines
        """

    private func catalog(_ fixture: StoreFixture) async throws -> Set<Substring> {
        Set(try #require(try await fixture.text(Self.catalog)).split(separator: "\n"))
    }

    @Test(
        "a database of a build before 0.1.0 is taken over, with all that is in it",
        arguments: TestMigrations.Unreleased.allCases
    )
    func adopted(_ build: TestMigrations.Unreleased) async throws {
        let fixture = try await StoreFixture(migrated: false)
        let versions = Migration.embedded.map(\.version)
        _ = try await Migrator(try TestMigrations.unreleased(build)).up(fixture.admin)
        try await ensureDays(fixture)
        try await use(fixture)
        try await store("old", fixture)
        let before = try await catalog(fixture)
        #expect(try await Migrator().state(fixture.admin) == .older(pending: versions))
        await #expect(throws: MigrationError.self) { try await Migrator().down(fixture.admin) }

        #expect(try await Migrator(by: .tester).up(fixture.admin) == versions)
        #expect(try await Migrator().state(fixture.admin) == .current)
        #expect(try await Migrator().status(fixture.admin).map(\.version) == versions)
        #expect(try await Migrator().up(fixture.admin) == [])
        #expect(try await fixture.count("audit WHERE action = 'migrate.up'") == Int64(versions.count))
        let after = try await catalog(fixture)
        // What older workers called, and what has changed since.
        let names = [
            "function store_", "function id_scope", "function unpack_", "comment function ",
            "function derive_subscriptions", "function message_of", "function drop_partition",
            "function register_handlers", "function raise_deliveries_missing", "column handler_workers.categories ",
            "column subscriptions.category ", "column workers.handlers ", "comment table workers ",
            "index CREATE INDEX deliveries_claim_idx ", "relation deliveries_claim_idx ",
            "column deliveries_claim_idx.",
        ]
        let gone = before.subtracting(after)
        #expect(!gone.isEmpty && gone.allSatisfy { line in names.contains { line.hasPrefix($0) } }, "\(gone)")
        let fresh = try await catalog(try await StoreFixture())
        #expect(after.subtracting(fresh).sorted() == [])
        #expect(fresh.subtracting(after).sorted() == [])

        try await store("new", fixture)
        try await expectThere(fixture, ["dead", "old", "new"])
        #expect(try await Migrator().down(fixture.admin, all: true) == versions.reversed())
        #expect(try await Migrator().state(fixture.admin) == .missing)
    }

    @Test("a database of a still older build is left alone, and the error says what to do", arguments: [1, 19, 26])
    func unreleased(count: Int) async throws {
        let fixture = try await StoreFixture(migrated: false)
        let steps = Array(try TestMigrations.unreleased().prefix(count))
        _ = try await Migrator(steps).up(fixture.admin)
        let before = try await catalog(fixture)
        let state = SchemaState.unreleased(last: steps[count - 1].version)
        #expect(try await StoreHealth.check(fixture.admin) == .schema(state) && state.isAwaited)
        for error in [
            await #expect(throws: MigrationError.self) { try await Migrator().up(fixture.admin) },
            await #expect(throws: MigrationError.self) { try await Migrator().down(fixture.admin, all: true) },
        ] {
            let text = error?.description ?? ""
            #expect(text.contains("(\(steps[count - 1].version) is its last migration, of 0030)"), "\(text)")
            #expect(text.contains("run `upstream-worker migrate up`"), "\(text)")
        }
        #expect(try await catalog(fixture) == before)
        #expect(try await fixture.count("schema_migrations") == Int64(count))
    }

    @Test("what is stored is there after the next migration and after the way back: found, deduplicated, delivered")
    func next() async throws {
        let fixture = try await StoreFixture()
        let steps = try TestMigrations.withNext()
        try await use(fixture)
        try await store("old", fixture)
        let before = try await interface(fixture)
        #expect(try await Migrator(steps).up(fixture.admin) == ["9999"])
        let removed = Set(before).subtracting(try await interface(fixture))
        #expect(removed.isEmpty, "a rolling step takes nothing away that workers of the step before use")
        try await store("between", fixture)
        #expect(try await Migrator(steps).down(fixture.admin) == ["9999"])
        #expect(try await Migrator().state(fixture.admin) == .current)
        try await store("new", fixture)
        try await expectThere(fixture, ["dead", "old", "between", "new"])
    }

    @Test("workers receive while the schema goes on a step and back; nobody waits for long")
    func receivingMeanwhile() async throws {
        let fixture = try await StoreFixture()
        let steps = try TestMigrations.withNext()
        let load = Load(fixture, writers: 2)
        try await load.run { load in
            for isUp in [true, false] {
                try await load.waitForCommits(3)
                _ = await load.takeLongest()
                let migrator = Migrator(steps)
                let done = isUp ? try await migrator.up(fixture.admin) : try await migrator.down(fixture.admin)
                #expect(done == ["9999"])
                try await load.waitForCommits(2)
                let wait = await load.takeLongest()
                #expect(wait < .seconds(3), "writers are held up for \(wait)")
            }
        }
        let stored = await load.stored
        #expect(stored > 0)
        #expect(try await fixture.count("messages") == stored)
        #expect(try await fixture.count("message_ids") == stored)
        #expect(await load.failures.isEmpty)
    }

    @Test("a migration that can't have its table gives up within 2 s, leaves nothing, and writers go on")
    func lockedOut() async throws {
        let fixture = try await StoreFixture()
        let steps = try TestMigrations.withNext()
        let reader = try await PostgresConnection.open(fixture.settings)
        try await reader.run { reader throws(PostgresError) in
            try reader.script("BEGIN; SELECT count(*) FROM upstream.messages")
        }
        let load = Load(fixture, writers: 2)
        try await load.run { load in
            try await load.waitForCommits(3)
            _ = await load.takeLongest()
            do {
                _ = try await Migrator(steps).up(fixture.admin)
                Issue.record("the table is in use, and was changed")
            } catch MigrationError.database(let error, version: "9999") {
                #expect(error.failureClass == .lock, "\(error)")
            }
            try await load.waitForCommits(2)
            let wait = await load.takeLongest()
            // Behind the migration's own wait of 1.5 s, and no longer.
            #expect(wait > .seconds(1) && wait < .seconds(15), "\(wait)")
            #expect(try await fixture.text("SELECT to_regclass('upstream.regions')::text") == nil)
            await reader.close()
            #expect(try await Migrator(steps).up(fixture.admin) == ["9999"])
            try await load.waitForCommits(2)
        }
        #expect(try await fixture.count("messages") == (await load.stored))
        #expect(await load.failures.isEmpty)
    }

    @Test("docs/upgrade.md has a row for each migration")
    func documented() throws {
        let text = try String(contentsOf: TestMigrations.project.appending(path: "docs/upgrade.md"), encoding: .utf8)
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("| 0") }.map { line in
            line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        #expect(rows.map { $0[0] } == Migration.embedded.map(\.version))
        #expect(rows.allSatisfy { ["yes", "no"].contains($0[1]) })
    }

    // MARK: what was there

    /// A handler for everything, a delivery of it that has failed for good, a conflict, a quarantined stanza and a replay.
    private func use(_ fixture: StoreFixture) async throws {
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders');
            INSERT INTO upstream.subscriptions (handler, category) VALUES ('orders', '*');
            INSERT INTO upstream.replays (name, kind, target, occupies, selection, options, created_by, planned, state)
            VALUES ('old', 'handlers', 'orders', '{}', '{}', '{}', 'operator@test', 0, 'finished')
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
        let store = fixture.store()
        #expect(try await store.commit([Self.copy("dead", fingerprint: 2)]) == [.conflict])
        #expect(try await store.commit([.make(1, quarantine: .categoryUnusable)]) == [.quarantined])
        await store.close()
    }

    /// Stores a message as a worker does.
    private func store(_ id: String, _ fixture: StoreFixture) async throws {
        let store = fixture.store()
        #expect(try await store.commit([Self.copy(id, fingerprint: 1)]) == [.stored], "\(id)")
        await store.close()
    }

    private func ensureDays(_ fixture: StoreFixture) async throws {
        try await fixture.script(
            "SELECT upstream.ensure_partitions((now() AT TIME ZONE 'UTC')::date - 1, (now() AT TIME ZONE 'UTC')::date + 1)"
        )
    }

    private static func key(_ id: String) -> String { "upstream.message_key('\(sender)', '\(id)')" }

    private static func copy(_ id: String, fingerprint: UInt64) -> IncomingMessage {
        var message = IncomingMessage.make(
            1,
            data: #"{"step": "\#(id)"}"#,
            id: id,
            token: token,
            fingerprint: fingerprint
        )
        message.messageKey = Digest128(hashing: "\(sender)\0\(id)")
        message.isKeyedByDevice = false
        message.deviceKey = Digest128(hashing: token)
        return message
    }

    // MARK: what is there

    private func expectThere(_ fixture: StoreFixture, _ ids: [String]) async throws {
        for id in ids {
            let found = try await fixture.text(
                "SELECT string_agg(data::text, ',') FROM upstream.messages_with_id('\(id)')"
            )
            #expect(found == #"{"step": "\#(id)"}"#, "\(id)")
        }
        let senders = "SELECT string_agg(sender_id || ' ' || id_scope, ',') FROM upstream.senders"
        #expect(try await fixture.text(senders) == "\(Self.sender) sender")
        try await expectKnown(fixture, ids)
        try await expectDelivered(fixture, ids)
        #expect(try await fixture.count("conflicts") == 2)
        #expect(try await fixture.count("quarantine") == 1)
        #expect(try await fixture.count("replays") == 1)
    }

    /// Copies are duplicates, and other content under a known id is a conflict.
    private func expectKnown(_ fixture: StoreFixture, _ ids: [String]) async throws {
        let store = fixture.store()
        let copies = ids.map { Self.copy($0, fingerprint: 1) }
        #expect(try await store.commit(copies) == copies.map { _ in .duplicate })
        #expect(try await store.commit([Self.copy("old", fingerprint: 3)]) == [.conflict])
        await store.close()
    }

    /// Every delivery is claimed with its message and settled, and so is the dead letter once it is retried.
    private func expectDelivered(_ fixture: StoreFixture, _ ids: [String]) async throws {
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
        let found = claimed.compactMap { delivery -> String? in
            guard case .stored(let message) = delivery.content else { return nil }
            return message.messageID
        }
        #expect(found.sorted() == ids.sorted())
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
