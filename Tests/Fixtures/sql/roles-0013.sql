-- deploy/roles.sql as it was with migration 0013: what roles that were made then have. See UpgradeRightsTests.
-- The roles upstream_worker and upstream_reader. Run this as the owner of the schema, or a superuser, after `upstream-worker migrate
-- up`, and again after each upgrade. Safe to repeat. Create your own login roles as members, for example:
--   CREATE ROLE worker LOGIN IN ROLE upstream_worker;
-- (or ALTER ROLE upstream_worker LOGIN PASSWORD '…').
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        CREATE ROLE upstream_worker NOLOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        CREATE ROLE upstream_reader NOLOGIN;
    END IF;
END
$$;

-- What `upstream-worker run` needs, and nothing else: it can't change a stored message, and deletes only by the functions of
-- retention, which refuse to delete what the retention policy keeps.
GRANT USAGE ON SCHEMA upstream TO upstream_worker;
GRANT SELECT ON upstream.schema_migrations TO upstream_worker;
GRANT SELECT, INSERT ON upstream.message_ids, upstream.messages, upstream.senders, upstream.retention_runs TO upstream_worker;
-- It may raise the retention policy, by a function, and never lower it.
GRANT SELECT ON upstream.retention_policy, upstream.dead_messages TO upstream_worker;
GRANT SELECT, INSERT, UPDATE ON upstream.conflicts, upstream.quarantine TO upstream_worker;
GRANT SELECT, INSERT, UPDATE, DELETE
    ON upstream.handlers, upstream.handler_workers, upstream.subscriptions, upstream.deliveries,
        upstream.delivery_blocks, upstream.dead_letters
    TO upstream_worker;
-- Replays are planned and run with the same rights; they change no message.
GRANT SELECT, INSERT, UPDATE ON upstream.replays TO upstream_worker;
GRANT SELECT, INSERT, DELETE ON upstream.replay_messages TO upstream_worker;
GRANT SELECT, INSERT ON upstream.replay_events TO upstream_worker;
GRANT USAGE ON SEQUENCE upstream.lease_tokens TO upstream_worker;
GRANT EXECUTE ON FUNCTION
    upstream.ensure_partitions(date, date),
    upstream.raise_retention(interval, interval, interval, interval),
    upstream.keep_dead_messages(date, integer),
    upstream.drop_partition(date),
    upstream.purge_message_ids(bigint, integer),
    upstream.purge_conflicts(integer),
    upstream.purge_quarantine(integer),
    upstream.purge_dead_letters(integer),
    upstream.purge_dead_messages(bigint, integer)
    TO upstream_worker;
-- upstream.store_messages, upstream.store_conflicts and upstream.known_messages run with the caller's rights; anyone may call them.

-- Read-only. Registration tokens are readable: grant this role only to those you trust with them.
GRANT USAGE ON SCHEMA upstream TO upstream_reader;
GRANT SELECT ON ALL TABLES IN SCHEMA upstream TO upstream_reader;
-- Future partitions belong to the schema's owner, whoever runs this.
DO $$
BEGIN
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA upstream GRANT SELECT ON TABLES TO upstream_reader',
        (SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace WHERE nspname = 'upstream'));
END
$$;
