-- migrate:up
-- The stanzas that nobody dismissed since they were last seen, for the list that opens with them.

CREATE INDEX quarantine_open_idx ON upstream.quarantine (id)
    WHERE dismissed_at IS NULL OR last_seen_at > dismissed_at;

-- migrate:down
DROP INDEX upstream.quarantine_open_idx;
