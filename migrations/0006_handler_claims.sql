-- migrate:up
ALTER TABLE upstream.handlers ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN upstream.handlers.seen_at IS 'When a worker that runs it was last seen, to half a minute.';

-- migrate:down
ALTER TABLE upstream.handlers DROP COLUMN seen_at;
