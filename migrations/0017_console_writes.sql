-- migrate:up
-- What the console is about to do to many rows, or does: the set is frozen when it is asked for, shown, and then acted on in
-- batches, each a transaction that moves next_chunk on. Whoever runs a console goes on where another stopped.
CREATE TABLE upstream.jobs (
    job uuid NOT NULL DEFAULT gen_random_uuid(),
    action text NOT NULL,
    subject text NOT NULL,
    groups json NOT NULL,
    state text NOT NULL DEFAULT 'planned',
    planned bigint NOT NULL,
    chunks integer NOT NULL,
    next_chunk integer NOT NULL DEFAULT 0,
    done bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    started_by text,
    started_at timestamptz,
    reason text,
    finished_at timestamptz,
    last_error text,
    CONSTRAINT jobs_pkey PRIMARY KEY (job),
    CONSTRAINT jobs_state_check CHECK (state IN ('planned', 'running', 'finished', 'cancelled', 'failed')),
    CONSTRAINT jobs_done_check CHECK (done >= 0 AND skipped >= 0 AND done + skipped <= planned)
);
CREATE INDEX jobs_open_idx ON upstream.jobs (state, created_at) WHERE state IN ('planned', 'running');
COMMENT ON TABLE upstream.jobs IS 'Actions of the console on many rows: what was frozen, by whom it was started, and how far it came. Kept for 7 days after the end.';
COMMENT ON COLUMN upstream.jobs.job IS 'Names the job.';
COMMENT ON COLUMN upstream.jobs.action IS 'What is done to the rows, as upstream.audit names it: dead.retry or dead.discard.';
COMMENT ON COLUMN upstream.jobs.subject IS 'The filter that selected them, for people.';
COMMENT ON COLUMN upstream.jobs.groups IS 'Their number by handler and error group, the largest 50.';
COMMENT ON COLUMN upstream.jobs.state IS 'planned (until it is started, or expires), running, finished, cancelled or failed.';
COMMENT ON COLUMN upstream.jobs.planned IS 'How many rows were frozen.';
COMMENT ON COLUMN upstream.jobs.chunks IS 'In how many rows of upstream.job_items they are.';
COMMENT ON COLUMN upstream.jobs.next_chunk IS 'Where it goes on.';
COMMENT ON COLUMN upstream.jobs.done IS 'On how many of them it acted.';
COMMENT ON COLUMN upstream.jobs.skipped IS 'How many were no longer there, or no longer the same.';
COMMENT ON COLUMN upstream.jobs.created_by IS 'Who asked for it.';
COMMENT ON COLUMN upstream.jobs.created_at IS 'When the set was frozen.';
COMMENT ON COLUMN upstream.jobs.expires_at IS 'Until when it can be started.';
COMMENT ON COLUMN upstream.jobs.started_by IS 'Who started it.';
COMMENT ON COLUMN upstream.jobs.started_at IS 'When it was started.';
COMMENT ON COLUMN upstream.jobs.reason IS 'Why, in their own words.';
COMMENT ON COLUMN upstream.jobs.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.jobs.last_error IS 'What made it fail.';

CREATE TABLE upstream.job_items (
    job uuid NOT NULL,
    chunk integer NOT NULL,
    handler text[] NOT NULL,
    message_key uuid[] NOT NULL,
    died_at timestamptz[] NOT NULL,
    CONSTRAINT job_items_pkey PRIMARY KEY (job, chunk),
    CONSTRAINT job_items_job_fkey FOREIGN KEY (job) REFERENCES upstream.jobs ON DELETE CASCADE
);
COMMENT ON TABLE upstream.job_items IS 'The rows that a job is about, 1,000 to a row; deleted at its end.';
COMMENT ON COLUMN upstream.job_items.job IS 'The job.';
COMMENT ON COLUMN upstream.job_items.chunk IS 'Counts the job''s rows from 0.';
COMMENT ON COLUMN upstream.job_items.handler IS 'The dead letters'' handlers.';
COMMENT ON COLUMN upstream.job_items.message_key IS 'Their messages.';
COMMENT ON COLUMN upstream.job_items.died_at IS 'When they died: one that was retried and died again is another.';

-- The answers of the console's writes, so that a request that is sent again is answered again and not done again
-- (draft-ietf-httpapi-idempotency-key-header). A row is inserted in the transaction of what was asked for.
CREATE TABLE upstream.idempotency_keys (
    who text NOT NULL,
    key text NOT NULL,
    request bytea NOT NULL,
    status smallint NOT NULL,
    location text,
    answer bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT idempotency_keys_pkey PRIMARY KEY (who, key),
    CONSTRAINT idempotency_keys_size_check CHECK (octet_length(key) <= 255 AND octet_length(answer) <= 262144)
);
CREATE INDEX idempotency_keys_created_at_idx ON upstream.idempotency_keys (created_at);
COMMENT ON TABLE upstream.idempotency_keys IS 'What the console answered to requests that change something, by their Idempotency-Key; for 24 hours.';
COMMENT ON COLUMN upstream.idempotency_keys.who IS 'Who sent the request.';
COMMENT ON COLUMN upstream.idempotency_keys.key IS 'Its Idempotency-Key.';
COMMENT ON COLUMN upstream.idempotency_keys.request IS 'SHA-256 of its method, path and body.';
COMMENT ON COLUMN upstream.idempotency_keys.status IS 'The answer''s HTTP status, of class 2xx: a refused request did nothing, and may be sent again.';
COMMENT ON COLUMN upstream.idempotency_keys.location IS 'The answer''s Location.';
COMMENT ON COLUMN upstream.idempotency_keys.answer IS 'The answer''s body.';
COMMENT ON COLUMN upstream.idempotency_keys.created_at IS 'When it was answered first.';

-- migrate:down
DROP TABLE upstream.idempotency_keys;
DROP TABLE upstream.job_items;
DROP TABLE upstream.jobs;
