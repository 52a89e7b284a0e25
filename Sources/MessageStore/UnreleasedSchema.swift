import Vocabulary

/// The schema of the last build before 0.1.0, which `migrate up` adopts.
///
/// Its 27 migrations, 0001 to 0030, created the objects of the first five of ``Migration/embedded``, and functions that only
/// still older workers called.
enum UnreleasedSchema {
    /// How many of its migrations a database has.
    enum Part {
        case none
        case some
        case all
    }

    /// The last of our migrations whose objects it has.
    static let lastHeld = "0105"
    /// The checksum of its first migration.
    private static let first = "380575eae00351c8"
    /// FNV-1a over all of its migrations, a line `VERSION CHECKSUM` each.
    private static let all = "d6294eb3d091cb1d"

    /// Compares the applied migrations with its own.
    static func part(of applied: [Migrator.Applied]) -> Part {
        guard applied.first?.checksum == first else { return .none }
        let lines = applied.map { "\($0.version) \($0.checksum)" }
        return Hex.encode(FNV1a.hash(lines.joined(separator: "\n"))) == all ? .all : .some
    }

    /// Deletes the records of its migrations and its surplus functions.
    static let leave = """
        DELETE FROM upstream.schema_migrations;
        DO $$
        DECLARE
            function regprocedure;
        BEGIN
            FOR function IN
                SELECT oid FROM pg_catalog.pg_proc
                WHERE pronamespace = 'upstream'::regnamespace AND (
                    proname IN ('store_messages', 'id_scope') OR proname = 'store_batch' AND pronargs < 29)
            LOOP
                EXECUTE format('DROP FUNCTION %s', function);
            END LOOP;
        END
        $$
        """
}
