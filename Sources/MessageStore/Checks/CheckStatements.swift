import Postgres

/// What `check --connect` asks a database, beside what `run` itself does.
enum CheckStatements: StatementCatalog {
    /// The server, our role, and its connections.
    ///
    /// Sessions are counted by database, which any role may see.
    static let facts: SQL = """
        SELECT
            current_setting('server_version_num')::int4, current_setting('server_version'), current_user::text,
            current_setting('server_encoding'), clock_timestamp(),
            current_setting('max_connections')::int4,
            current_setting('superuser_reserved_connections')::int4
                + coalesce(current_setting('reserved_connections', true)::int4, 0),
            (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::int8,
            (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),
            (SELECT datconnlimit FROM pg_database WHERE datname = current_database()),
            current_database()::text
        """

    /// Those of some rights that our role lacks, as `INSERT ON upstream.messages`.
    ///
    /// Tables are looked up in the catalog: without the right to the schema their names can't be resolved.
    static func missing(_ rights: [WorkerRight]) -> SQL {
        """
        SELECT wanted.privilege || ' ON ' || CASE
                WHEN wanted.object = 'upstream' THEN 'SCHEMA upstream'
                WHEN wanted.privilege = 'EXECUTE' THEN 'FUNCTION upstream.' || wanted.object
                ELSE 'upstream.' || wanted.object
            END
        FROM unnest(\(rights.map(\.object)), \(rights.map(\.privilege))) WITH ORDINALITY
            AS wanted (object, privilege, place)
        WHERE NOT CASE
            WHEN wanted.object = 'upstream' THEN has_schema_privilege('upstream', wanted.privilege)
            WHEN wanted.privilege = 'EXECUTE' THEN coalesce((
                SELECT bool_and(has_function_privilege(f.oid, 'EXECUTE')) FROM pg_proc AS f
                WHERE f.pronamespace = 'upstream'::regnamespace AND f.proname = wanted.object
            ), false)
            WHEN wanted.privilege = 'USAGE' THEN coalesce((
                SELECT has_sequence_privilege(s.oid, 'USAGE') FROM pg_class AS s
                WHERE s.relnamespace = 'upstream'::regnamespace AND s.relname = wanted.object AND s.relkind = 'S'
            ), false)
            ELSE coalesce((
                SELECT has_table_privilege(t.oid, wanted.privilege) FROM pg_class AS t
                WHERE t.relnamespace = 'upstream'::regnamespace AND t.relname = wanted.object
            ), false)
        END
        ORDER BY wanted.place
        """
    }

    static var samples: [StatementSample] {
        [StatementSample("facts", facts), StatementSample("missing", missing(WorkerRight.all))]
    }
}
