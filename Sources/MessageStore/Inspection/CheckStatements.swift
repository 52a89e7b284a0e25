import Postgres

/// What `check --connect` asks a database beyond what `run` itself does.
enum CheckStatements {
    /// The server, our role, and its connections.
    ///
    /// Sessions are counted per database, which any role may see.
    static let facts: SQL = """
        SELECT
            current_setting('server_version_num')::int4, current_setting('server_version'), current_user::text,
            current_setting('server_encoding'),
            current_setting('max_connections')::int4,
            current_setting('superuser_reserved_connections')::int4
                + coalesce(current_setting('reserved_connections', true)::int4, 0),
            (SELECT coalesce(sum(numbackends), 0) FROM pg_stat_database)::int8,
            (SELECT nullif(greatest(rolconnlimit, -1), -1) FROM pg_roles WHERE rolname = current_user),
            (SELECT nullif(greatest(datconnlimit, -1), -1) FROM pg_database WHERE datname = current_database()),
            current_database()::text
        """

    /// What primary and standbys share, and nobody else.
    static let cluster: SQL =
        "SELECT (SELECT system_identifier FROM pg_control_system())::text || ' ' || current_database()"

    /// Reads no row, and fails where messages can't be read.
    static let messages: SQL = "SELECT FROM upstream.messages LIMIT 0"

    /// Fails where one of these is no regular expression.
    static func expressions(_ texts: [String]) -> SQL {
        "SELECT '' ~ one FROM unnest(\(texts)) AS each (one)"
    }

    /// The release of the extension Citus; no row without it.
    static let citus: SQL = "SELECT extversion FROM pg_extension WHERE extname = 'citus'"

    /// Our tables that Citus spreads over servers, or copies to all of them; only where it is installed.
    static let spreadTables: SQL = """
        SELECT c.relname::text FROM pg_dist_partition AS p JOIN pg_class AS c ON c.oid = p.logicalrel
        WHERE c.relnamespace = to_regnamespace('upstream') AND (p.partmethod <> 'n' OR p.repmodel = 't')
        ORDER BY c.relname
        """

    /// The rights that a role lacks, as `INSERT ON upstream.messages`; a nil role is the session's own.
    ///
    /// Tables are looked up in the catalog: without the right to the schema their names can't be resolved.
    static func missing(_ rights: [WorkerRight], of role: String?) -> SQL {
        """
        SELECT wanted.privilege || ' ON ' || CASE
                WHEN wanted.object = 'upstream' THEN 'SCHEMA upstream'
                WHEN wanted.privilege = 'EXECUTE' THEN 'FUNCTION upstream.' || wanted.object
                ELSE 'upstream.' || wanted.object
            END
        FROM unnest(\(rights.map(\.object)), \(rights.map(\.privilege))) WITH ORDINALITY
            AS wanted (object, privilege, place)
        CROSS JOIN (SELECT coalesce(\(role)::name, current_user) AS name) AS grantee
        WHERE NOT CASE
            WHEN wanted.object = 'upstream' THEN has_schema_privilege(grantee.name, 'upstream', wanted.privilege)
            WHEN wanted.privilege = 'EXECUTE' THEN coalesce((
                SELECT bool_and(has_function_privilege(grantee.name, f.oid, 'EXECUTE')) FROM pg_proc AS f
                WHERE f.pronamespace = 'upstream'::regnamespace AND f.proname = wanted.object
            ), false)
            WHEN wanted.privilege = 'USAGE' THEN coalesce((
                SELECT has_sequence_privilege(grantee.name, s.oid, 'USAGE') FROM pg_class AS s
                WHERE s.relnamespace = 'upstream'::regnamespace AND s.relname = wanted.object AND s.relkind = 'S'
            ), false)
            ELSE coalesce((
                SELECT has_table_privilege(grantee.name, t.oid, wanted.privilege) FROM pg_class AS t
                WHERE t.relnamespace = 'upstream'::regnamespace AND t.relname = wanted.object
            ), false)
        END
        ORDER BY wanted.place
        """
    }

    /// The schema's indexes and triggers, partitioned tables, and default partitions: kind, table, name.
    ///
    /// Those of partitions are left out: they come and go with them.
    static let objects: SQL = """
        SELECT 'index', r.relname::text, c.relname::text
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid JOIN pg_class AS r ON r.oid = i.indrelid
        WHERE r.relnamespace = 'upstream'::regnamespace AND NOT r.relispartition
        UNION ALL
        SELECT CASE t.tgenabled WHEN 'D' THEN 'disabled trigger' ELSE 'trigger' END, r.relname, t.tgname
        FROM pg_trigger AS t JOIN pg_class AS r ON r.oid = t.tgrelid
        WHERE r.relnamespace = 'upstream'::regnamespace AND NOT r.relispartition AND NOT t.tgisinternal
        UNION ALL
        SELECT 'partitioned', r.relname, '' FROM pg_class AS r
        WHERE r.relnamespace = 'upstream'::regnamespace AND r.relkind = 'p'
        UNION ALL
        SELECT 'default', r.relname, d.relname
        FROM pg_partitioned_table AS p JOIN pg_class AS r ON r.oid = p.partrelid
        JOIN pg_class AS d ON d.oid = p.partdefid
        WHERE r.relnamespace = 'upstream'::regnamespace
        """

    /// Whether the server is on this machine, its data directory if the session may see it, and its tablespaces.
    static let disk: SQL = """
        SELECT
            inet_server_addr() IS NULL, (SELECT setting FROM pg_settings WHERE name = 'data_directory'),
            ARRAY(SELECT pg_tablespace_location(oid) FROM pg_tablespace WHERE pg_tablespace_location(oid) <> '')
        """
}
