-- migrate:up
-- Where reading an archive began: nothing that it got before was ever asked for.

ALTER TABLE upstream.archive_points ADD COLUMN begun_at timestamptz;
COMMENT ON COLUMN upstream.archive_points.begun_at IS 'Since when what the archive got is asked for, by the server''s clock; null: never read.';
-- Where it began before is not known.
UPDATE upstream.archive_points SET begun_at = archived_at;

-- migrate:down
ALTER TABLE upstream.archive_points DROP COLUMN begun_at;
