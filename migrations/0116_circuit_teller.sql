-- migrate:up
-- What a worker says of a handler's circuit counts for as long as that worker runs.
ALTER TABLE upstream.handlers ADD COLUMN circuit_token bigint;
COMMENT ON COLUMN upstream.handlers.circuit_token IS 'Which process says so (handler_workers.token): once it has stopped or died, circuit_open says nothing.';

-- migrate:down
ALTER TABLE upstream.handlers DROP COLUMN circuit_token;
