-- migrate:up
-- For doctor: as which role a worker works, whose rights can then be looked at; and until when the certificates hold that it has
-- seen. The role has no default for rows that are there already: they would get the migrating one.
ALTER TABLE upstream.workers
    ADD COLUMN role text,
    ADD COLUMN certificates jsonb NOT NULL DEFAULT '[]';
ALTER TABLE upstream.workers
    ALTER COLUMN role SET DEFAULT current_user,
    ALTER COLUMN certificates SET STORAGE MAIN;
COMMENT ON COLUMN upstream.workers.role IS 'The role of its sessions; null in a row of a version that did not tell.';
COMMENT ON COLUMN upstream.workers.certificates IS 'The certificates that it has seen: an array with an object for each: certificate (server, client, webhook, webhook_client, console), name (the sender or handler), ends_at (seconds since 1970).';

-- migrate:down
ALTER TABLE upstream.workers DROP COLUMN certificates, DROP COLUMN role;
