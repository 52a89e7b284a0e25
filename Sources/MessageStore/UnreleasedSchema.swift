import Vocabulary

/// The schemas of builds before 0.1.0 which `migrate up` adopts: made by 27 migrations, 0001 to 0030, or by five, 0101 to
/// 0105, of which there were two states.
///
/// They have the tables of the first five of ``Migration/embedded``; functions and some columns differ.
enum UnreleasedSchema {
    /// How many of its migrations a database has.
    enum Part {
        case none
        case some
        case all
    }

    /// The last of our migrations whose objects it has.
    static let lastHeld = "0105"
    /// The checksum of the first of the 27.
    private static let first = "380575eae00351c8"
    /// FNV-1a over all migrations of each schema, a line `VERSION CHECKSUM` each.
    private static let all = ["d6294eb3d091cb1d", "f43c192c65eb185f", "8d825ef965878779"]

    /// Compares the applied migrations with theirs.
    static func part(of applied: [Migrator.Applied]) -> Part {
        let lines = applied.map { "\($0.version) \($0.checksum)" }
        if all.contains(Hex.encode(FNV1a.hash(lines.joined(separator: "\n")))) { return .all }
        return applied.first?.checksum == first ? .some : .none
    }

    /// A script that gives an adopted schema the functions and comments of these migrations.
    static func functions(of migrations: [Migration]) -> String {
        var script: [Substring] = []
        var end: String?
        for line in migrations.map(\.up).joined(separator: "\n").split(
            separator: "\n",
            omittingEmptySubsequences: false
        ) {
            if line.hasPrefix("CREATE FUNCTION ") {
                end = "$$;"
                script.append("CREATE OR REPLACE " + line.dropFirst("CREATE ".count))
            } else {
                if line.hasPrefix("COMMENT ON ") { end = "';" }
                if end != nil { script.append(line) }
            }
            if let found = end, line.hasSuffix(found) { end = nil }
        }
        return script.joined(separator: "\n")
    }

    /// Deletes the records of their migrations, and the functions that have gone or return something else now.
    static let leave = """
        DELETE FROM upstream.schema_migrations;
        DO $$
        DECLARE
            function regprocedure;
        BEGIN
            FOR function IN
                SELECT oid FROM pg_catalog.pg_proc
                WHERE pronamespace = 'upstream'::regnamespace
                    AND proname IN ('store_messages', 'id_scope', 'store_batch', 'register_handlers', 'raise_deliveries_missing')
            LOOP
                EXECUTE format('DROP FUNCTION %s', function);
            END LOOP;
        END
        $$;
        ALTER TABLE upstream.handler_workers
            ADD COLUMN IF NOT EXISTS share double precision NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS share_most double precision NOT NULL DEFAULT 0,
            ADD COLUMN IF NOT EXISTS share_until timestamptz,
            ADD COLUMN IF NOT EXISTS filter jsonb;
        ALTER TABLE upstream.subscriptions ADD COLUMN IF NOT EXISTS filters jsonb
        """
}
