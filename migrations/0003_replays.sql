-- migrate:up
CREATE TABLE upstream.replays (
    replay_id uuid NOT NULL DEFAULT gen_random_uuid(),
    name text NOT NULL,
    target text NOT NULL,
    selection json NOT NULL,
    options json NOT NULL,
    state text NOT NULL DEFAULT 'planned',
    reason text,
    created_by text NOT NULL DEFAULT session_user,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    planned bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    cursor_received_at timestamptz,
    cursor_message_key uuid,
    lease_owner text,
    lease_token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    last_error text,
    CONSTRAINT replays_pkey PRIMARY KEY (replay_id),
    CONSTRAINT replays_state_check
        CHECK (state IN ('planned', 'running', 'paused', 'finished', 'cancelled', 'failed'))
);
-- One replay of a name, and one per target, at a time.
CREATE UNIQUE INDEX replays_name_key ON upstream.replays (name) WHERE state IN ('planned', 'running', 'paused');
CREATE UNIQUE INDEX replays_target_key ON upstream.replays (target) WHERE state IN ('running', 'paused');
COMMENT ON TABLE upstream.replays IS 'Replays of stored messages: what was planned, by whom and why, and how far it came.';
COMMENT ON COLUMN upstream.replays.replay_id IS 'Names the replay; handlers see it.';
COMMENT ON COLUMN upstream.replays.name IS 'The name a person gave it.';
COMMENT ON COLUMN upstream.replays.target IS 'Where the messages go.';
COMMENT ON COLUMN upstream.replays.selection IS 'The frozen selection of messages.';
COMMENT ON COLUMN upstream.replays.options IS 'Rate, pacing, concurrency and the like.';
COMMENT ON COLUMN upstream.replays.state IS 'planned, running, paused, finished, cancelled or failed.';
COMMENT ON COLUMN upstream.replays.reason IS 'Why, in the words of whoever planned it.';
COMMENT ON COLUMN upstream.replays.created_by IS 'Who planned it.';
COMMENT ON COLUMN upstream.replays.created_at IS 'When it was planned.';
COMMENT ON COLUMN upstream.replays.started_at IS 'When it first ran.';
COMMENT ON COLUMN upstream.replays.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.replays.planned IS 'How many messages the selection holds.';
COMMENT ON COLUMN upstream.replays.done IS 'How many of them are behind the cursor.';
COMMENT ON COLUMN upstream.replays.cursor_received_at IS 'The last message done, first half of its primary key.';
COMMENT ON COLUMN upstream.replays.cursor_message_key IS 'The last message done, second half of its primary key.';
COMMENT ON COLUMN upstream.replays.lease_owner IS 'The process that runs it; null where none does.';
COMMENT ON COLUMN upstream.replays.lease_token IS 'Fencing token: grows with each take-over.';
COMMENT ON COLUMN upstream.replays.lease_until IS 'When the lease ends unless its owner renews it.';
COMMENT ON COLUMN upstream.replays.last_error IS 'What stopped it last.';

-- migrate:down
DROP TABLE upstream.replays;
