-- The roles of upstream-worker and their rights. Run this with psql as a superuser, twice:
--
--   psql -f roles.sql                  before the first `upstream-worker migrate up`: makes the roles
--   psql -d upstream -f roles.sql      after it: gives them their rights. Later migrations grant what they bring themselves
--
-- Safe to repeat. It stops at the first error, and then nothing of it is done: all of it is one statement.
--
-- The schema's owner may run it as well, superuser or not, once the three roles that hold the rights are there. Roles that
-- sign in, which it may not make, are then left out, with a notice.
--
--   role               who it is
--   upstream_owner     signs in for `migrate up`: owns the database and the schema
--   upstream-worker    signs in for `run`: the name of the worker's system user, so that peer lets it in; has the rights of
--                      upstream_worker
--   upstream-console   signs in for `console`: likewise, with the rights of upstream_console
--   upstream_worker, upstream_console, upstream_reader
--                      hold the rights, and do not sign in: GRANT one of them to a role of your own
--
-- None of them has a password. To sign in with one: ALTER ROLE "upstream-worker" PASSWORD '…', or in psql \password.
\set ON_ERROR_STOP on
DO $$
DECLARE
    login record;
BEGIN
    -- One at a time in this database.
    PERFORM pg_advisory_xact_lock(hashtextextended('upstream.roles', 0));
    FOR login IN
        SELECT wanted.name, wanted.signs_in
        FROM (VALUES
            ('upstream_worker', false), ('upstream_reader', false), ('upstream_console', false),
            ('upstream_owner', true), ('upstream-worker', true), ('upstream-console', true)
        ) AS wanted (name, signs_in)
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted.name)
    LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I %s', login.name, CASE WHEN login.signs_in THEN 'LOGIN' ELSE 'NOLOGIN' END);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            -- Made meanwhile, for another database of this server.
            NULL;
        WHEN insufficient_privilege THEN
            -- Without those that hold the rights nothing can be granted. Others can sign in instead of these.
            IF NOT login.signs_in THEN RAISE; END IF;
            RAISE NOTICE 'the role "%" is not there, and "%" may not make it: if you want it, run this as a superuser',
                login.name, current_user;
        END;
    END LOOP;
    FOR login IN
        SELECT wanted.name, wanted.member
        FROM (VALUES ('upstream_worker', 'upstream-worker'), ('upstream_console', 'upstream-console'))
            AS wanted (name, member)
        -- Asked about a role that is not there, the function fails.
        WHERE CASE WHEN EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = wanted.member)
            THEN NOT pg_catalog.pg_has_role(wanted.member, wanted.name, 'MEMBER') END
    LOOP
        BEGIN
            EXECUTE format('GRANT %I TO %I', login.name, login.member);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        WHEN insufficient_privilege THEN
            RAISE NOTICE '"%" is no member of %, and "%" may not grant it: run this as a superuser',
                login.member, login.name, current_user;
        END;
    END LOOP;

    IF to_regnamespace('upstream') IS NULL THEN
        RAISE NOTICE 'the roles are there; run this again after `upstream-worker migrate up`, in its database';
        RETURN;
    END IF;

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
            upstream.delivery_blocks, upstream.dead_letters, upstream.workers
        TO upstream_worker;
    -- The history of attempts is only ever added to.
    GRANT SELECT, INSERT ON upstream.attempt_batches TO upstream_worker;
    GRANT SELECT ON upstream.attempts TO upstream_worker;
    -- Replays are planned and run with the same rights; they change no message.
    GRANT SELECT, INSERT, UPDATE ON upstream.replays TO upstream_worker;
    GRANT SELECT, INSERT, DELETE ON upstream.replay_messages TO upstream_worker;
    GRANT SELECT, INSERT ON upstream.replay_events TO upstream_worker;
    GRANT USAGE ON SEQUENCE upstream.lease_tokens TO upstream_worker;
    GRANT EXECUTE ON FUNCTION
        upstream.ensure_partitions(date, date),
        upstream.ensure_attempts(date, date),
        upstream.raise_retention(interval, interval, interval, interval),
        upstream.keep_dead_messages(date, integer),
        upstream.drop_partition(date),
        upstream.purge_message_ids(bigint, integer),
        upstream.purge_conflicts(integer),
        upstream.purge_quarantine(integer),
        upstream.purge_dead_letters(integer),
        upstream.purge_dead_messages(bigint, integer),
        upstream.purge_attempts(),
        upstream.purge_audit(integer)
        TO upstream_worker;
    -- A database from before 0.1.0 gets these by `migrate up`.
    IF to_regclass('upstream.channel_bindings') IS NOT NULL THEN
        -- Samples are only ever added to.
        GRANT SELECT, INSERT ON upstream.samples TO upstream_worker;
        GRANT SELECT, INSERT, UPDATE ON upstream.archive_points TO upstream_worker;
        -- Pins of channel binding; a command forgets one.
        GRANT SELECT, INSERT, DELETE ON upstream.channel_bindings TO upstream_worker;
        GRANT EXECUTE ON FUNCTION
            upstream.purge_erasures(integer), upstream.ensure_samples(date, date), upstream.purge_samples(interval)
            TO upstream_worker;
    END IF;
    -- Runs of retention that the console is asked for.
    IF to_regclass('upstream.maintenance_requests') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION
            upstream.take_retention_request(), upstream.finish_retention_request(bigint, text, text) TO upstream_worker;
    END IF;
    -- Commands record what they do. The audit trail itself it can't write to, and only what is older than 730 days goes.
    GRANT EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) TO upstream_worker;

    -- What `upstream-worker console` needs: it reads what upstream_reader reads, registration tokens included, which it shows to those
    -- alone who have the right to see them; and it acts by what is listed here. It can store, change or delete no message, conflict or
    -- stanza, call no handler's function, and change neither schema nor retention.
    GRANT USAGE ON SCHEMA upstream TO upstream_console;
    GRANT SELECT ON ALL TABLES IN SCHEMA upstream TO upstream_console;
    -- Pausing and resuming.
    GRANT UPDATE (paused, paused_until, paused_reason, paused_at, held_until, held_reason, resumed_at)
        ON upstream.handlers TO upstream_console;
    -- Retrying and discarding dead letters, retrying waiting deliveries now and giving them up, releasing conflicts.
    GRANT INSERT, UPDATE, DELETE ON upstream.dead_letters TO upstream_console;
    GRANT INSERT, UPDATE (next_attempt_at), DELETE ON upstream.deliveries TO upstream_console;
    -- Removing handlers that no worker runs.
    GRANT DELETE ON upstream.handlers, upstream.subscriptions, upstream.delivery_blocks TO upstream_console;
    GRANT UPDATE (released_at, released_by) ON upstream.conflicts TO upstream_console;
    -- Dismissing stanzas, which are kept. Before `migrate up` the column may be missing; that grants it then.
    IF EXISTS (
        SELECT FROM pg_attribute WHERE attrelid = 'upstream.quarantine'::regclass AND attname = 'dismissed_at'
    ) THEN
        GRANT UPDATE (dismissed_at) ON upstream.quarantine TO upstream_console;
    END IF;
    -- Dismissing workers that fell silent.
    GRANT DELETE ON upstream.workers TO upstream_console;
    -- Replays to handlers, which workers run.
    GRANT INSERT, UPDATE ON upstream.replays TO upstream_console;
    GRANT INSERT, DELETE ON upstream.replay_messages TO upstream_console;
    GRANT INSERT ON upstream.replay_events TO upstream_console;
    -- Its own: jobs, and the answers that it gave.
    GRANT INSERT, UPDATE, DELETE ON upstream.jobs, upstream.idempotency_keys TO upstream_console;
    GRANT INSERT, DELETE ON upstream.job_items TO upstream_console;
    GRANT EXECUTE ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) TO upstream_console;
    -- Asking workers for a run of retention, and the owner for a device's erasure.
    IF to_regclass('upstream.maintenance_requests') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION upstream.request_maintenance(text, uuid, text, text) TO upstream_console;
    END IF;

    -- What runs with the caller's rights anyone may call, unless the database takes that from PUBLIC for functions to come (ALTER DEFAULT
    -- PRIVILEGES … REVOKE EXECUTE): then these roles may. Three are the owner's.
    FOR login IN
        SELECT p.oid::regprocedure::text AS name FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'upstream'::regnamespace AND NOT p.prosecdef
            AND p.proname NOT IN ('filter_ids', 'retention_end', 'set_retention')
            AND NOT pg_catalog.has_function_privilege('public', p.oid, 'EXECUTE')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO upstream_worker, upstream_console, upstream_reader', login.name);
    END LOOP;

    -- Read-only. Registration tokens are readable: grant this role only to those you trust with them.
    GRANT USAGE ON SCHEMA upstream TO upstream_reader;
    GRANT SELECT ON ALL TABLES IN SCHEMA upstream TO upstream_reader;
    -- Future partitions belong to the schema's owner, whoever runs this.
    EXECUTE format(
        'ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA upstream GRANT SELECT ON TABLES TO upstream_reader, upstream_console',
        (SELECT pg_catalog.pg_get_userbyid(nspowner) FROM pg_catalog.pg_namespace WHERE nspname = 'upstream'));
END
$$;
