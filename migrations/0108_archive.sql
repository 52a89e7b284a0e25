-- migrate:up
-- Catching up from the servers' archives (XEP-0313).

CREATE TABLE upstream.archive_points (
    sender_id text NOT NULL,
    archive text NOT NULL,
    archive_id text,
    archived_at timestamptz,
    reader text,
    leased_until timestamptz,
    caught_up_at timestamptz,
    CONSTRAINT archive_points_pkey PRIMARY KEY (sender_id, archive)
);
COMMENT ON TABLE upstream.archive_points IS 'How far each archive was read: a place is saved once all before it is committed. To read again from a time, set archived_at to it and archive_id to null.';
COMMENT ON COLUMN upstream.archive_points.sender_id IS 'The sender.';
COMMENT ON COLUMN upstream.archive_points.archive IS 'The archive''s address: the sender''s account.';
COMMENT ON COLUMN upstream.archive_points.archive_id IS 'The archive''s id of the last message read; null: archived_at alone says where to begin.';
COMMENT ON COLUMN upstream.archive_points.archived_at IS 'When the server archived it, by the server''s clock; null: never read.';
COMMENT ON COLUMN upstream.archive_points.reader IS 'The process that reads, or read last.';
COMMENT ON COLUMN upstream.archive_points.leased_until IS 'Until when no other process reads; null: nobody does.';
COMMENT ON COLUMN upstream.archive_points.caught_up_at IS 'When the archive''s end was last reached, by the database''s clock.';

DO $$
DECLARE
    known record;
BEGIN
    FOR known IN
        SELECT DISTINCT
            wanted.rights, CASE WHEN held.grantee = 0 THEN 'PUBLIC' ELSE held.grantee::regrole::text END AS grantee
        FROM (VALUES
            -- Who receives.
            ('messages', 'INSERT', 'SELECT, INSERT, UPDATE ON upstream.archive_points')
        ) AS wanted (object, privilege, rights)
        JOIN pg_catalog.pg_class AS c ON c.relnamespace = 'upstream'::regnamespace AND c.relname = wanted.object
        CROSS JOIN LATERAL pg_catalog.aclexplode(c.relacl) AS held
        WHERE held.privilege_type = wanted.privilege AND held.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s TO %s', known.rights, known.grantee);
    END LOOP;
END
$$;

-- migrate:down
DROP TABLE upstream.archive_points;
