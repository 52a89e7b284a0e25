import DatabaseSupport
import Foundation
import LocalDatabase
import MessageStore
import Postgres
import Testing

/// An upgrade needs no second run of `deploy/roles.sql`: migrations grant what they bring to whoever has the like rights.
@Suite(.timeLimit(.minutes(3))) struct UpgradeRightsTests {
    private struct Refused: Error { var status: Int32 }

    /// The first step with roles whose script is kept, in `Tests/Fixtures/sql`.
    private static let first = "0013"

    private static let roles = ["upstream_worker", "upstream_reader", "upstream_console"]

    private static func file(_ path: String) -> URL {
        var root = URL(filePath: #filePath)
        for _ in 0..<3 { root.deleteLastPathComponent() }
        return root.appending(path: path)
    }

    /// Runs a script with psql, as an operator does.
    private func psql(_ file: URL, _ fixture: StoreFixture) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname=\(fixture.url)", "--file=\(file.path)",
        ]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Refused(status: process.terminationStatus) }
    }

    /// A database without our schema, and a connection of its owner, who is no superuser.
    private func database(of owner: String, on cluster: LocalCluster) async throws -> (StoreFixture, PostgresConnection)
    {
        let fixture = try await StoreFixture(migrated: false, on: cluster)
        try await fixture.script(
            """
            DO $$ BEGIN
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '\(owner)') THEN CREATE ROLE \(owner) LOGIN; END IF;
                EXECUTE format('ALTER DATABASE %I OWNER TO \(owner)', current_database());
            END $$
            """
        )
        return (fixture, try await PostgresConnection.open(try fixture.settings(as: owner)))
    }

    /// A database that was installed today: `roles.sql`, `migrate up`, `roles.sql`.
    private func installed(on cluster: LocalCluster) async throws -> (StoreFixture, PostgresConnection) {
        let roles = Self.file("deploy/roles.sql")
        let (fixture, owner) = try await database(of: "upstream_owner", on: cluster)
        try psql(roles, fixture)
        _ = try await Migrator().up(owner)
        try psql(roles, fixture)
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

    @Test("roles of before 0014, of roles.sql and of one's own, have after the upgrade what a new installation gives")
    func rolesOfBefore() async throws {
        let cluster = LocalCluster.forTests("rights")
        defer { cluster.stop() }
        let (fixture, owner) = try await database(of: "keeper", on: cluster)
        _ = try await Migrator(Migration.embedded.filter { $0.version <= Self.first }).up(owner)
        let script = Self.file("Tests/Fixtures/sql/roles-0013.sql")
        try psql(script, fixture)
        // The same rights under other names.
        let own = cluster.folder.appending(path: "own.sql")
        try String(contentsOf: script, encoding: .utf8).replacing("upstream_worker", with: "my_worker")
            .replacing("upstream_reader", with: "my_reader").write(to: own, atomically: false, encoding: .utf8)
        try psql(own, fixture)
        _ = try await Migrator().up(owner)

        let (fresh, freshOwner) = try await installed(on: cluster)
        for (role, other) in [
            ("upstream_worker", "upstream_worker"), ("upstream_reader", "upstream_reader"),
            ("my_worker", "upstream_worker"), ("my_reader", "upstream_reader"),
        ] {
            try await expect(role, fixture, hasRightsOf: other, in: fresh)
        }
        try await fixture.script("CREATE ROLE mine LOGIN IN ROLE my_worker")
        let mine = try await PostgresConnection.open(try fixture.settings(as: "mine"))
        #expect(try await WorkerRight.missing(on: mine) == [])
        // The console's role was not there yet, and nobody got its rights: only then roles.sql is due.
        #expect(try await rights(of: "upstream_console", fixture) == [])
        try psql(Self.file("deploy/roles.sql"), fixture)
        try await expect("upstream_console", fixture, hasRightsOf: "upstream_console", in: fresh)
        for connection in [mine, owner, freshOwner, fixture.admin, fresh.admin] { await connection.close() }
    }

    /// Whether a role lacks a right on something that is there.
    private func lacks(_ role: String, _ fixture: StoreFixture, ofThoseIn fresh: StoreFixture) async throws -> [String]
    {
        let missing = Set(try await rights(of: role, fresh)).subtracting(try await rights(of: role, fixture))
        let text = try await fixture.text("SELECT string_agg(DISTINCT object, E'\\n') FROM \(Self.known)")
        let objects = Set((text ?? "").split(separator: "\n"))
        return missing.filter { line in line.range(of: ": ").map { objects.contains(line[..<$0.lowerBound]) } ?? true }
    }

    @Test(
        "whatever step the roles are at: they have after the upgrade what a new installation gives, and keep it going back"
    )
    func everyStep() async throws {
        let cluster = LocalCluster.forTests("steps")
        defer { cluster.stop() }
        let (fixture, owner) = try await installed(on: cluster)
        let (fresh, freshOwner) = try await installed(on: cluster)
        let later = Migration.embedded.map(\.version).filter { $0 > Self.first }
        for number in 1...later.count {
            // What a step brought goes down with it, the rights on it included.
            for step in later.suffix(number).reversed() { #expect(try await Migrator().down(owner) == [step]) }
            for role in Self.roles {
                let lacking = try await lacks(role, fixture, ofThoseIn: fresh)
                #expect(lacking == [], "\(role) lacks these before \(later[later.count - number])")
            }
            _ = try await Migrator().up(owner)
            for role in Self.roles {
                try await expect(
                    role,
                    fixture,
                    hasRightsOf: role,
                    in: fresh,
                    "from before \(later[later.count - number])"
                )
            }
        }
        for connection in [owner, freshOwner, fixture.admin, fresh.admin] { await connection.close() }
    }
}
