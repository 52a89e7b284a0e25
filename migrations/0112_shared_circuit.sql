-- migrate:up
-- Workers tell each other when a handler's circuit opens or closes: the others then find out by one attempt.
ALTER TABLE upstream.handlers ADD COLUMN circuit_open boolean, ADD COLUMN circuit_changed_at timestamptz;
COMMENT ON COLUMN upstream.handlers.circuit_open IS 'Whether the handler failed in the worker whose circuit breaker changed last; null before the first change.';
COMMENT ON COLUMN upstream.handlers.circuit_changed_at IS 'When that was: workers then let one attempt decide.';

-- migrate:down
ALTER TABLE upstream.handlers DROP COLUMN circuit_open, DROP COLUMN circuit_changed_at;
