-- migrate:up
-- Claims take live deliveries first, and replayed ones by an index that holds them alone: neither reads what the other leaves.
CREATE INDEX deliveries_replayed_idx ON upstream.deliveries (handler, next_attempt_at, received_at, message_key)
    WHERE replay_id IS NOT NULL;

-- migrate:down
DROP INDEX upstream.deliveries_replayed_idx;
