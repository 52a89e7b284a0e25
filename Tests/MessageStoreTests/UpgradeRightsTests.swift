import DatabaseSupport
import Ingest
import LocalDatabase
import MessageStore
import Postgres
import Testing
import Vocabulary

/// An upgrade needs no second run of `deploy/roles.sql`: migrations grant what they bring to whoever has the like rights.
@Suite(.timeLimit(.minutes(10))) struct UpgradeRightsTests {
    private static let roles = ["upstream_worker", "upstream_reader", "upstream_console"]

    /// A database that was installed as documents say, `roles.sql`, `migrate up`, `roles.sql`; and its owner's connection.
    private func installed(
        _ steps: [Migration] = Migration.embedded,
        on cluster: LocalCluster
    ) async throws -> (StoreFixture, PostgresConnection) {
        let fixture = try await StoreFixture(migrated: false, on: cluster)
        try await fixture.script(try DeployedRoles.script())
        try await fixture.script(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I OWNER TO upstream_owner', current_database()); END $$"
        )
        let owner = try await PostgresConnection.open(try fixture.settings(as: "upstream_owner"))
        _ = try await Migrator(steps).up(owner)
        try await fixture.script(try DeployedRoles.script())
        return (fixture, owner)
    }

    /// Everything that there are rights on, tables to come included; days under one name.
    private static let known = """
        (
            SELECT regexp_replace(relname, '_[0-9]{8}(_[0-9]+)?$', '_DAY'), relacl FROM pg_class
            WHERE relnamespace = 'upstream'::regnamespace
            UNION ALL
            SELECT relname || '.' || attname, attacl FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
            WHERE relnamespace = 'upstream'::regnamespace AND NOT attisdropped
            UNION ALL
            SELECT oid::regprocedure::text, proacl FROM pg_proc WHERE pronamespace = 'upstream'::regnamespace
            UNION ALL
            SELECT 'schema', nspacl FROM pg_namespace WHERE nspname = 'upstream'
            UNION ALL
            SELECT 'tables to come', defaclacl FROM pg_default_acl
            WHERE defaclnamespace = 'upstream'::regnamespace AND defaclobjtype = 'r'
        ) AS known (object, list)
        """

    /// All that the catalogues say a role may do.
    private func rights(of role: String, _ fixture: StoreFixture) async throws -> [String] {
        let text = try await fixture.text(
            """
            SELECT string_agg(DISTINCT format('%s: %s', object, acl.privilege_type), E'\\n')
            FROM \(Self.known), aclexplode(list) AS acl WHERE acl.grantee = '\(role)'::regrole
            """
        )
        return (text ?? "").split(separator: "\n").map(String.init).sorted()
    }

    private func expect(
        _ role: String,
        _ fixture: StoreFixture,
        hasRightsOf other: String,
        in fresh: StoreFixture,
        _ comment: String = ""
    ) async throws {
        let (found, wanted) = (try await rights(of: role, fixture), try await rights(of: other, fresh))
        #expect(wanted.count > 20, "\(other) has rights")
        #expect(Set(wanted).subtracting(found).sorted() == [], "\(role) misses these \(comment)")
        #expect(Set(found).subtracting(wanted).sorted() == [], "\(role) has too many \(comment)")
    }

    @Test("roles have the same rights in a database from before 0.1.0 that was taken over as in a new installation")
    func adopted() async throws {
        let cluster = LocalCluster.forTests("rights")
        defer { cluster.stop() }
        let (fixture, owner) = try await installed(try TestMigrations.unreleased(), on: cluster)
        _ = try await Migrator().up(owner)
        let (fresh, freshOwner) = try await installed(on: cluster)
        for role in Self.roles { try await expect(role, fixture, hasRightsOf: role, in: fresh) }
        for connection in [owner, freshOwner, fixture.admin, fresh.admin] { await connection.close() }
    }

    @Test("what a migration brings is granted to the roles of roles.sql and to one's own; back down nothing is left")
    func next() async throws {
        let cluster = LocalCluster.forTests("steps")
        defer { cluster.stop() }
        let (fixture, owner) = try await installed(on: cluster)
        // The same rights under other names.
        let own = try DeployedRoles.script().replacing("upstream_worker", with: "my_worker")
        try await fixture.script(own)
        let roles = Self.roles + ["my_worker"]
        var before: [String: [String]] = [:]
        for role in roles { before[role] = try await rights(of: role, fixture) }
        let migrator = Migrator(try TestMigrations.withNext())
        #expect(try await migrator.up(owner) == ["9999"])
        for role in roles {
            let added = Set(try await rights(of: role, fixture)).subtracting(before[role] ?? [])
            let rights = role.hasSuffix("worker") ? ["INSERT", "SELECT"] : ["SELECT"]
            #expect(added.sorted() == rights.map { "regions: \($0)" }, "\(role)")
        }
        try await fixture.script("CREATE ROLE mine LOGIN IN ROLE my_worker")
        let mine = try await PostgresConnection.open(try fixture.settings(as: "mine"))
        #expect(try await WorkerRight.missing(on: mine) == [])
        #expect(try await migrator.down(owner) == ["9999"])
        for role in roles { #expect(try await rights(of: role, fixture) == before[role], "\(role)") }
        for connection in [mine, owner, fixture.admin] { await connection.close() }
    }

    @Test("where functions are not everybody's by default, roles.sql lets its roles call what they need")
    func functionsOfFew() async throws {
        let fixture = try await StoreFixture(migrated: false)
        try await fixture.script("ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
        _ = try await Migrator().up(fixture.admin)
        try await fixture.addRoles()
        let settings = try fixture.settings(as: "w")
        let deliveries = PostgresDeliveryStore(settings, worker: "a")
        _ = try await deliveries.register([.make("orders")])
        let store = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await store.commit([.make(1), .make(2, quarantine: .duplicateKey)]) == [.stored, .quarantined])
        #expect(try await deliveries.claim(.make()).map(\.number) == [1])
        let reader = try await PostgresConnection.open(fixture.settings(as: "r"))
        let found = try await reader.run { connection throws(PostgresError) in
            try connection.query("SELECT message_id FROM upstream.messages_with_id('m-1')").count
        }
        #expect(found == 1)
        await reader.close()
        await deliveries.close()
        await store.close()
    }
}
