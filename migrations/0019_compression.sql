-- migrate:up
-- A row of more than 2 kB is compressed, and PostgreSQL's own method then takes most of an insert's processor time: with lz4
-- such a message costs a third to six tenths of it. That holds for what is stored from now on: nothing is rewritten, and
-- both kinds are read side by side.

-- From here to the commit, which comes soon, inserts wait. Whoever reads for long makes this fail; it does not stop everything.
SET LOCAL lock_timeout = '1500ms';
DO $$
DECLARE
    bodies constant text := 'ALTER COLUMN data SET COMPRESSION lz4, ALTER COLUMN data_raw SET COMPRESSION lz4, '
        'ALTER COLUMN extra SET COMPRESSION lz4';
    day regclass;
BEGIN
    -- Days to come are made like the whole table; those that are there don't follow it. The table first, as inserts lock it.
    EXECUTE 'ALTER TABLE upstream.messages ' || bodies;
    FOR day IN
        SELECT c.oid FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'upstream.messages'::regclass AND c.relkind = 'r' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s %s', day, bodies);
    END LOOP;
    EXECUTE 'ALTER TABLE upstream.conflicts ' || bodies;
    ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET COMPRESSION lz4;
EXCEPTION
    -- A server that was built without lz4: everything stays as it is.
    WHEN feature_not_supported THEN
        RAISE NOTICE 'this server was built without lz4: large messages cost it more';
END
$$;

-- migrate:down
SET LOCAL lock_timeout = '1500ms';
DO $$
DECLARE
    bodies constant text := 'ALTER COLUMN data SET COMPRESSION DEFAULT, ALTER COLUMN data_raw SET COMPRESSION DEFAULT, '
        'ALTER COLUMN extra SET COMPRESSION DEFAULT';
    day regclass;
BEGIN
    EXECUTE 'ALTER TABLE upstream.messages ' || bodies;
    FOR day IN
        SELECT c.oid FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'upstream.messages'::regclass AND c.relkind = 'r' ORDER BY c.relname
    LOOP
        EXECUTE format('ALTER TABLE %s %s', day, bodies);
    END LOOP;
    EXECUTE 'ALTER TABLE upstream.conflicts ' || bodies;
    ALTER TABLE upstream.quarantine ALTER COLUMN stanza SET COMPRESSION DEFAULT;
END
$$;
