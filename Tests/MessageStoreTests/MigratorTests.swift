import Foundation
import MessageStore
import Postgres
import Testing

@Suite struct MigratorTests {
    private static let everything = """
        SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
            SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) AS line
            FROM information_schema.columns WHERE table_schema = 'upstream'
            UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'upstream'
            UNION ALL SELECT oid::regprocedure || ' ' || prosrc FROM pg_proc WHERE pronamespace = 'upstream'::regnamespace
        ) AS lines
        """

    @Test("Migrations go up, down and up again, and leave the same schema")
    func upDownUp() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let migrator = Migrator()
        #expect(try await migrator.state(fixture.admin) == .missing)
        let versions = Migration.embedded.map(\.version)
        #expect(try await migrator.up(fixture.admin) == versions)
        #expect(try await migrator.up(fixture.admin) == [])
        #expect(try await migrator.state(fixture.admin) == .current)
        let before = try await fixture.text(Self.everything)
        #expect(try await migrator.down(fixture.admin) == [versions[versions.count - 1]])
        #expect(try await migrator.state(fixture.admin) == .older(pending: [versions[versions.count - 1]]))
        #expect(try await migrator.down(fixture.admin, all: true) == versions.dropLast().reversed())
        #expect(try await migrator.state(fixture.admin) == .missing)
        #expect(try await migrator.status(fixture.admin).allSatisfy { $0.appliedAt == nil })
        #expect(
            try await fixture.integer(
                "SELECT count(*) FROM pg_class WHERE relnamespace = 'upstream'::regnamespace AND relkind IN ('r', 'p')"
            )
                == 1
        )
        _ = try await migrator.up(fixture.admin)
        #expect(try await fixture.text(Self.everything) == before)
    }

    @Test("Partitions reach from yesterday to a week ahead")
    func partitionsReachFromYesterdayToAWeekAhead() async throws {
        let fixture = try await StoreFixture()
        let today = UTCDay.today()
        #expect(
            try await fixture.integer(
                "SELECT count(*) FROM pg_inherits WHERE inhparent = 'upstream.messages'::regclass"
            )
                == 9
        )
        let made = try await fixture.admin.run { connection throws(PostgresError) in
            try Partitions.ensure(connection, around: UTCDay(number: today.number + 1))
        }
        #expect(made == 1)
    }

    @Test("A schema made beforehand for its owner is enough: he needs no right to the database")
    func schemaOfOwner() async throws {
        try await withOwner { owner, _ in
            "CREATE SCHEMA upstream AUTHORIZATION \(owner)"
        } run: { fixture, connection, _ async throws in
            #expect(try await Migrator().up(connection) == Migration.embedded.map(\.version))
            #expect(try await Migrator().up(connection) == [])
            #expect(try await fixture.text("SELECT obj_description('upstream'::regnamespace)")?.isEmpty == false)
        }
    }

    @Test("What a superuser's step makes belongs to the tables' owner, as the rest does")
    func stepOfSuperuser() async throws {
        try await withOwner { owner, database in
            "GRANT CREATE ON DATABASE \(database) TO \(owner)"
        } run: { fixture, connection, owner async throws in
            _ = try await Migrator(Migration.embedded.dropLast()).up(connection)
            #expect(try await Migrator().up(fixture.admin).count == 1)
            let others = """
                SELECT string_agg(format('%s %s', owner, name), ', ') FROM (
                    SELECT relowner::regrole AS owner, relname AS name FROM pg_class WHERE relnamespace = 'upstream'::regnamespace
                    UNION ALL SELECT proowner::regrole, proname FROM pg_proc WHERE pronamespace = 'upstream'::regnamespace
                ) AS objects WHERE owner::text <> '\(owner)'
                """
            #expect(try await fixture.text(others) == nil)
        }
    }

    /// An empty database with a role for the owner of its schema, given what `right` says, and a session of that role.
    private func withOwner(
        _ right: (_ owner: String, _ database: String) -> String,
        run body: (StoreFixture, _ own: PostgresConnection, _ owner: String) async throws -> Void
    ) async throws {
        let fixture = try await StoreFixture(migrated: false)
        let database = String(fixture.url.split(separator: "/")[1].prefix { $0 != "?" })
        let owner = "owner_of_\(database)"
        try await fixture.script("CREATE ROLE \(owner) LOGIN; \(right(owner, database))")
        let connection = try await PostgresConnection.open(fixture.settings(as: owner))
        try await body(fixture, connection, owner)
        await connection.close()
        try await fixture.script("DROP OWNED BY \(owner) CASCADE; DROP ROLE \(owner)")
    }

    @Test("Two concurrent migrators do the work once")
    func twoMigratorsAtOnceDoTheWorkOnce() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let other = try await PostgresConnection.open(fixture.settings)
        async let left = Migrator().up(fixture.admin)
        async let right = Migrator().up(other)
        let done = try await left + right
        #expect(done.sorted() == Migration.embedded.map(\.version))
    }

    @Test(
        "A step that would wait for a report's lock gives up, leaves nothing, and can be repeated",
        .timeLimit(.minutes(5))
    )
    func lockedTable() async throws {
        let fixture = try await StoreFixture()
        let text = """
            -- migrate:up
            CREATE TABLE upstream.before ();
            ALTER TABLE upstream.deliveries ADD COLUMN extra integer;
            -- migrate:down
            """
        let steps = Migration.embedded + [Migration(fileName: "9999_extra.sql", text: text)]
        let report = try await PostgresConnection.open(fixture.settings)
        try await report.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT count(*) FROM upstream.deliveries")
        }
        do {
            _ = try await Migrator(steps, lockTimeout: 100).up(fixture.admin)
            Issue.record("the step ran although another transaction held the table")
        } catch MigrationError.database(let error, let version) {
            #expect(error.sqlState == "55P03" && version == "9999")
            let text = "\(MigrationError.database(error, version: version))"
            #expect(text == "migration 9999: canceling statement due to lock timeout (SQLSTATE 55P03)")
        }
        #expect(try await fixture.text("SELECT to_regclass('upstream.before')::text") == nil)
        #expect(try await Migrator(steps).state(fixture.admin) == .older(pending: ["9999"]))
        try await report.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        #expect(try await Migrator(steps, lockTimeout: 100).up(fixture.admin) == ["9999"])
    }

    @Test("The index of claims is taken as it was built beforehand, unless its building was broken off")
    func builtBeforehand() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let steps = Migration.embedded.filter { $0.version < "0114" }
        let page = try String(contentsOf: TestMigrations.project.appending(path: "docs/upgrade.md"), encoding: .utf8)
        let statement = try #require(page.firstMatch(of: /```sql\n(CREATE INDEX CONCURRENTLY [^`]*)```/)?.1)
        let index = "SELECT 'upstream.deliveries_kind_idx'::regclass::oid::int8"
        for isValid in [true, false] {
            _ = try await Migrator(steps).up(fixture.admin)
            try await fixture.script(String(statement))
            let built = try await fixture.integer(index)
            if !isValid {
                try await fixture.script(
                    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'upstream.deliveries_kind_idx'::regclass"
                )
            }
            _ = try await Migrator().up(fixture.admin)
            #expect(try await (fixture.integer(index) == built) == isValid)
            #expect(try await fixture.integer("SELECT count(*) FROM pg_index WHERE NOT indisvalid") == 0)
            _ = try await Migrator().down(fixture.admin, all: true)
        }
    }

    @Test("An edited, a newer and a broken migration are refused")
    func anEditedANewerAndABrokenStepAreRefused() async throws {
        let fixture = try await StoreFixture(migrated: false)
        let one = Migration(
            fileName: "01_one.sql",
            text: "-- migrate:up\nCREATE TABLE upstream.a ();\n-- migrate:down\nDROP TABLE upstream.a;"
        )
        let two = Migration(
            fileName: "02_two.sql",
            text: "-- migrate:up\nCREATE TABLE upstream.b (); SELECT 1/0;\n-- migrate:down\n"
        )
        #expect(one.version == "01" && one.name == "one")
        _ = try await Migrator([one]).up(fixture.admin)
        // The broken step leaves nothing behind.
        await #expect(throws: MigrationError.self) { try await Migrator([one, two]).up(fixture.admin) }
        #expect(try await fixture.text("SELECT to_regclass('upstream.b')::text") == nil)
        let edited = Migration(fileName: "01_one.sql", text: "-- migrate:up\n-- migrate:down\n")
        #expect(try await Migrator([edited]).state(fixture.admin) == .edited(version: "01"))
        await #expect(throws: MigrationError.self) { try await Migrator([edited]).up(fixture.admin) }
        await #expect(throws: MigrationError.self) { try await Migrator([edited]).down(fixture.admin) }
        #expect(try await Migrator([]).state(fixture.admin) == .newer(unknown: ["01"]))
        await #expect(throws: MigrationError.self) { try await Migrator([]).up(fixture.admin) }
    }

    @Test("Every table and column has a comment")
    func everyTableAndColumnHasAComment() async throws {
        let fixture = try await StoreFixture()
        let bare = try await fixture.text(
            """
            SELECT string_agg(c.relname || '.' || coalesce(a.attname, '*'), ' ')
            FROM pg_class c
            CROSS JOIN LATERAL (
                SELECT 0 AS attnum, NULL::name AS attname
                UNION ALL SELECT attnum, attname FROM pg_attribute WHERE attrelid = c.oid AND attnum > 0
            ) AS a
            WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind IN ('r', 'p')
                AND col_description(c.oid, a.attnum) IS NULL AND obj_description(c.oid, 'pg_class') IS NULL
                OR c.relnamespace = 'upstream'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
                AND col_description(c.oid, a.attnum) IS NULL
            """
        )
        #expect(bare == nil)
    }

    @Test("The health check recognises a wrong schema and a read-only server")
    func healthTellsASchemaAndAReadOnlyServer() async throws {
        let fixture = try await StoreFixture(migrated: false)
        #expect(try await StoreHealth.check(fixture.admin) == .schema(.missing))
        _ = try await Migrator().up(fixture.admin)
        #expect(try await StoreHealth.check(fixture.admin) == .ready)
        try await fixture.script("SET default_transaction_read_only = on")
        #expect(try await StoreHealth.check(fixture.admin) == .readOnly)
    }
}
