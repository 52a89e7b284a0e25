import Postgres
import Vocabulary

/// A step of the schema: a file of `migrations/` in dbmate's format.
package struct Migration: Sendable, Equatable {
    /// The files of `migrations/`, oldest first.
    package static let embedded = EmbeddedFiles.all.map {
        Migration(fileName: $0.name.description, text: $0.text.description)
    }

    /// The digits at the start of the file name, which order the steps.
    package let version: String
    /// The rest of the file name, without its ending.
    package let name: String
    /// The script that applies the step.
    package let up: String
    /// The script that rolls it back.
    package let down: String
    /// FNV-1a over the whole file, 16 hex digits: detects a file edited after it was applied.
    package let checksum: String

    /// Parses a file `VERSION_name.sql` with one `-- migrate:up` and one `-- migrate:down`.
    package init(fileName: String, text: String) {
        let stem = fileName.hasSuffix(".sql") ? String(fileName.dropLast(4)) : fileName
        version = String(stem.prefix { $0.isASCII && $0.isNumber })
        name = String(stem.dropFirst(version.count).drop { $0 == "_" })
        var up: [Substring] = []
        var down: [Substring] = []
        var isDown = false
        for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("-- migrate:up") {
                isDown = false
            } else if line.hasPrefix("-- migrate:down") {
                isDown = true
            } else if isDown {
                down.append(line)
            } else {
                up.append(line)
            }
        }
        self.up = up.joined(separator: "\n")
        self.down = down.joined(separator: "\n")
        checksum = Hex.encode(FNV1a.hash(text))
    }
}

/// The statements of the migrator, beside the migrations' own texts.
enum MigrationStatements {
    /// Held to the transaction's end, so it works behind a pooler too.
    static let lock: SQL = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.schema_migrations', 0))"

    /// Limits lock waits for the rest of the transaction, where what only deserves a warning is no error of a function's.
    static func limitLocks(milliseconds: Int) -> SQL {
        """
        SELECT set_config('lock_timeout', \(String(milliseconds)), true), set_config('plpgsql.extra_errors', 'none', true)
        """
    }

    /// Creates what the first migration needs, and goes on as the tables' owner.
    ///
    /// Even with IF NOT EXISTS, making a schema takes a right to the database, which its owner may not have. What a
    /// superuser made would be his: the owner could not erase there, nor would defaults of privileges apply.
    static let bootstrap = """
        DO $$
        DECLARE
            owner oid;
        BEGIN
            IF to_regnamespace('upstream') IS NULL THEN
                CREATE SCHEMA upstream;
            END IF;
            IF (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'upstream') THEN
                COMMENT ON SCHEMA upstream IS 'Upstream messages: what upstream-worker receives, and their way to the handlers.';
            END IF;
            SELECT min(relowner) INTO owner FROM pg_class WHERE relnamespace = to_regnamespace('upstream')
            HAVING count(DISTINCT relowner) = 1;
            IF pg_get_userbyid(owner) <> current_user AND pg_has_role(owner, 'MEMBER') THEN
                BEGIN
                    EXECUTE format('SET LOCAL ROLE %I', pg_get_userbyid(owner));
                EXCEPTION
                    WHEN insufficient_privilege THEN NULL;
                END;
            END IF;
        END
        $$;
        CREATE TABLE IF NOT EXISTS upstream.schema_migrations (
            version text NOT NULL,
            checksum text NOT NULL,
            applied_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
        );
        COMMENT ON TABLE upstream.schema_migrations IS 'The steps of the schema that are applied.';
        COMMENT ON COLUMN upstream.schema_migrations.version IS 'The digits that the migration''s file name begins with.';
        COMMENT ON COLUMN upstream.schema_migrations.checksum IS 'FNV-1a (64 bits) of the migration''s file.';
        COMMENT ON COLUMN upstream.schema_migrations.applied_at IS 'When the step was applied.'
        """

    static let exists: SQL = "SELECT to_regclass('upstream.schema_migrations') IS NOT NULL"
    static let list: SQL = "SELECT version, checksum, applied_at FROM upstream.schema_migrations ORDER BY version"

    static func record(_ migration: Migration) -> SQL {
        """
        INSERT INTO upstream.schema_migrations (version, checksum)
        VALUES (\(migration.version), \(migration.checksum))
        """
    }

    static func erase(_ migration: Migration) -> SQL {
        "DELETE FROM upstream.schema_migrations WHERE version = \(migration.version)"
    }
}
