-- migrate:up
-- What people did. Nobody has a right to the table but to read it: an entry is made by upstream.record_audit, which itself says when
-- and by which role, in the transaction of what it is about.
CREATE TABLE upstream.audit (
    id bigint GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
    who text NOT NULL,
    role text NOT NULL,
    via text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    count bigint,
    reason text,
    CONSTRAINT audit_pkey PRIMARY KEY (id),
    CONSTRAINT audit_via_check CHECK (via IN ('command', 'console')),
    CONSTRAINT audit_count_check CHECK (count >= 0)
);
CREATE INDEX audit_at_idx ON upstream.audit (at);
CREATE INDEX audit_who_idx ON upstream.audit (who, id);
CREATE INDEX audit_action_idx ON upstream.audit (action, id);
COMMENT ON SEQUENCE upstream.audit_id_seq IS 'Where audit.id comes from.';
COMMENT ON TABLE upstream.audit IS 'What people did, by command or console: append-only, kept for 730 days; see upstream.record_audit.';
COMMENT ON COLUMN upstream.audit.id IS 'Grows from entry to entry.';
COMMENT ON COLUMN upstream.audit.at IS 'When, by the database''s clock.';
COMMENT ON COLUMN upstream.audit.who IS 'Who: the operating system''s user and host of a command, or the name that somebody signed in to the console with.';
COMMENT ON COLUMN upstream.audit.role IS 'The database role of the session.';
COMMENT ON COLUMN upstream.audit.via IS 'command or console.';
COMMENT ON COLUMN upstream.audit.action IS 'What, such as dead.retry. An action of several transactions has an entry before the first, and one that ends in .finished after the last.';
COMMENT ON COLUMN upstream.audit.subject IS 'To what: a handler, a filter, a device_key; never a registration token or a payload.';
COMMENT ON COLUMN upstream.audit.count IS 'To how many rows; null where that is not known, or means nothing.';
COMMENT ON COLUMN upstream.audit.reason IS 'Why, in the words of whoever did it.';

-- Holds for the table's owner as well: a mistake in a statement changes no entry. Only what has expired can be deleted.
CREATE FUNCTION upstream.guard_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' AND old.at < now() - interval '730 days' THEN
        RETURN old;
    END IF;
    RAISE EXCEPTION 'upstream.audit is append-only' USING ERRCODE = '42501';
END
$$;
COMMENT ON FUNCTION upstream.guard_audit() IS 'Refuses to change the audit trail.';
CREATE TRIGGER audit_row_guard BEFORE UPDATE OR DELETE ON upstream.audit FOR EACH ROW EXECUTE FUNCTION upstream.guard_audit();
CREATE TRIGGER audit_table_guard BEFORE TRUNCATE ON upstream.audit FOR EACH STATEMENT EXECUTE FUNCTION upstream.guard_audit();

-- The bound is one of time alone, so that nobody pushes an entry out by making many; see upstream.purge_audit.
CREATE FUNCTION upstream.record_audit(who text, via text, action text, subject text, count bigint, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry bigint;
BEGIN
    INSERT INTO upstream.audit (at, who, role, via, action, subject, count, reason)
    VALUES (
        clock_timestamp(), left(record_audit.who, 200), session_user, record_audit.via, left(record_audit.action, 64),
        left(record_audit.subject, 1000), record_audit.count, left(record_audit.reason, 1000))
    RETURNING id INTO entry;
    RETURN entry;
END
$$;
REVOKE ALL ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) FROM PUBLIC;
COMMENT ON FUNCTION upstream.record_audit(text, text, text, text, bigint, text) IS 'Adds an entry to the audit trail, with the time and the session''s role; gives its id.';

-- For a worker's retention, which first compares this server's clock with its own: a clock that is years ahead deletes nothing.
CREATE FUNCTION upstream.purge_audit(most integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    deleted integer;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('upstream.retention', 0)) THEN
        RETURN NULL;
    END IF;
    DELETE FROM upstream.audit WHERE id IN (
        SELECT id FROM upstream.audit WHERE at < now() - interval '730 days' ORDER BY at LIMIT most
    );
    GET DIAGNOSTICS deleted = ROW_COUNT;
    RETURN deleted;
END
$$;
REVOKE ALL ON FUNCTION upstream.purge_audit(integer) FROM PUBLIC;
COMMENT ON FUNCTION upstream.purge_audit(integer) IS 'Deletes entries of the audit trail that are older than 730 days: most of them at once. Null where another worker is at it.';

-- Commands of this version need it at once.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_worker') THEN
        GRANT EXECUTE ON FUNCTION
            upstream.record_audit(text, text, text, text, bigint, text), upstream.purge_audit(integer)
            TO upstream_worker;
    END IF;
    IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'upstream_reader') THEN
        GRANT SELECT ON upstream.audit TO upstream_reader;
    END IF;
END
$$;

-- migrate:down
DROP FUNCTION upstream.purge_audit(integer);
DROP FUNCTION upstream.record_audit(text, text, text, text, bigint, text);
DROP TABLE upstream.audit;
DROP FUNCTION upstream.guard_audit();
