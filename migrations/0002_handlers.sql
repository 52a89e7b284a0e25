-- migrate:up
CREATE TABLE upstream.handlers (
    name text NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    paused_until timestamptz,
    paused_reason text,
    paused_at timestamptz,
    registered_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT handlers_pkey PRIMARY KEY (name)
);
COMMENT ON TABLE upstream.handlers IS 'The handlers that workers have registered, and whether they are paused.';
COMMENT ON COLUMN upstream.handlers.name IS 'The configured name.';
COMMENT ON COLUMN upstream.handlers.paused IS 'Whether no delivery may be claimed; see paused_until.';
COMMENT ON COLUMN upstream.handlers.paused_until IS 'When a pause ends by itself; null where it lasts until it is resumed.';
COMMENT ON COLUMN upstream.handlers.paused_reason IS 'Who or what paused it, and why.';
COMMENT ON COLUMN upstream.handlers.paused_at IS 'When it was paused.';
COMMENT ON COLUMN upstream.handlers.registered_at IS 'When a worker first registered it; it gets messages received from then on.';

CREATE TABLE upstream.subscriptions (
    handler text NOT NULL,
    category text NOT NULL,
    CONSTRAINT subscriptions_pkey PRIMARY KEY (handler, category),
    CONSTRAINT subscriptions_handler_fkey FOREIGN KEY (handler) REFERENCES upstream.handlers ON DELETE CASCADE
);
CREATE INDEX subscriptions_category_idx ON upstream.subscriptions (category);
COMMENT ON TABLE upstream.subscriptions IS 'Which handler gets which category; read by every worker as it stores messages.';
COMMENT ON COLUMN upstream.subscriptions.handler IS 'The handler.';
COMMENT ON COLUMN upstream.subscriptions.category IS 'An exact category, or * for all.';

-- Small and hot: rows live for as long as a delivery takes. Free space in each page keeps lease updates on the page, and
-- vacuum comes early.
CREATE TABLE upstream.deliveries (
    handler text NOT NULL,
    message_key uuid NOT NULL,
    received_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    lease_owner text,
    lease_token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    last_error text,
    replay_id uuid,
    CONSTRAINT deliveries_pkey PRIMARY KEY (message_key, handler)
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX deliveries_claim_idx ON upstream.deliveries (handler, next_attempt_at);
COMMENT ON TABLE upstream.deliveries IS 'What is still to be handled: a row per message and subscribed handler, inserted with the message, deleted on success.';
COMMENT ON COLUMN upstream.deliveries.handler IS 'The handler.';
COMMENT ON COLUMN upstream.deliveries.message_key IS 'The message; with received_at the primary key of messages.';
COMMENT ON COLUMN upstream.deliveries.received_at IS 'The message''s received_at.';
COMMENT ON COLUMN upstream.deliveries.attempts IS 'Attempts begun so far that count.';
COMMENT ON COLUMN upstream.deliveries.next_attempt_at IS 'When it may be claimed next.';
COMMENT ON COLUMN upstream.deliveries.lease_owner IS 'The worker that holds it; null where it is free.';
COMMENT ON COLUMN upstream.deliveries.lease_token IS 'Fencing token: grows with each claim, and completing needs the current one.';
COMMENT ON COLUMN upstream.deliveries.lease_until IS 'When the lease ends unless its owner renews it.';
COMMENT ON COLUMN upstream.deliveries.last_error IS 'What the latest attempt failed with.';
COMMENT ON COLUMN upstream.deliveries.replay_id IS 'The replay that asked for it; null for the first delivery.';

CREATE TABLE upstream.dead_letters (
    handler text NOT NULL,
    message_key uuid NOT NULL,
    received_at timestamptz NOT NULL,
    attempts integer NOT NULL,
    next_attempt_at timestamptz NOT NULL,
    lease_owner text,
    lease_token bigint NOT NULL,
    lease_until timestamptz,
    last_error text,
    replay_id uuid,
    error_group text NOT NULL,
    died_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT dead_letters_pkey PRIMARY KEY (message_key, handler)
);
CREATE INDEX dead_letters_handler_died_at_idx ON upstream.dead_letters (handler, died_at);
CREATE INDEX dead_letters_error_group_idx ON upstream.dead_letters (error_group);
COMMENT ON TABLE upstream.dead_letters IS 'Deliveries that gave up, until they are retried or discarded.';
COMMENT ON COLUMN upstream.dead_letters.handler IS 'The handler.';
COMMENT ON COLUMN upstream.dead_letters.message_key IS 'The message; with received_at the primary key of messages.';
COMMENT ON COLUMN upstream.dead_letters.received_at IS 'The message''s received_at.';
COMMENT ON COLUMN upstream.dead_letters.attempts IS 'Attempts that were made.';
COMMENT ON COLUMN upstream.dead_letters.next_attempt_at IS 'When the last attempt was due.';
COMMENT ON COLUMN upstream.dead_letters.lease_owner IS 'The worker that made the last attempt.';
COMMENT ON COLUMN upstream.dead_letters.lease_token IS 'The last attempt''s fencing token.';
COMMENT ON COLUMN upstream.dead_letters.lease_until IS 'The end of the last attempt''s lease.';
COMMENT ON COLUMN upstream.dead_letters.last_error IS 'What the last attempt failed with.';
COMMENT ON COLUMN upstream.dead_letters.replay_id IS 'The replay that asked for it; null for the first delivery.';
COMMENT ON COLUMN upstream.dead_letters.error_group IS 'The fingerprint of last_error that groups like failures.';
COMMENT ON COLUMN upstream.dead_letters.died_at IS 'When it gave up.';

-- migrate:down
DROP TABLE upstream.dead_letters;
DROP TABLE upstream.deliveries;
DROP TABLE upstream.subscriptions;
DROP TABLE upstream.handlers;
