-- migrate:up
-- Replaying: stored messages sent again, to handlers, to a file or to a server. What is sent is frozen when it is planned.

CREATE TABLE upstream.replays (
    replay_id uuid NOT NULL DEFAULT gen_random_uuid(),
    name text NOT NULL,
    kind text NOT NULL,
    target text NOT NULL,
    occupies text[] NOT NULL,
    handlers text[] NOT NULL DEFAULT '{}',
    only_failed boolean NOT NULL DEFAULT false,
    selection json NOT NULL,
    options json NOT NULL,
    state text NOT NULL DEFAULT 'planned',
    reason text,
    created_by text NOT NULL,
    created_role text NOT NULL DEFAULT session_user,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz,
    planned bigint NOT NULL,
    first_received_at timestamptz,
    last_received_at timestamptz,
    done bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    runs integer NOT NULL DEFAULT 0,
    lease_owner text,
    lease_token bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    last_error text,
    file text,
    CONSTRAINT replays_pkey PRIMARY KEY (replay_id),
    CONSTRAINT replays_kind_check CHECK (kind IN ('handlers', 'output', 'endpoint')),
    CONSTRAINT replays_done_check CHECK (done BETWEEN 0 AND planned AND skipped BETWEEN 0 AND done),
    CONSTRAINT replays_state_check
        CHECK (state IN ('planned', 'running', 'paused', 'finished', 'cancelled', 'failed'))
);
-- One replay of a name at a time; one per target is checked where one is started, under a lock.
CREATE UNIQUE INDEX replays_name_key ON upstream.replays (name) WHERE state IN ('planned', 'running', 'paused', 'failed');
COMMENT ON TABLE upstream.replays IS 'Replays of stored messages: what was planned, by whom and why, and how far it came.';
COMMENT ON COLUMN upstream.replays.replay_id IS 'Names the replay; handlers see it.';
COMMENT ON COLUMN upstream.replays.name IS 'The name a person gave it.';
COMMENT ON COLUMN upstream.replays.kind IS 'What it sends to: handlers, output (a file or stdout), or endpoint (an XMPP server).';
COMMENT ON COLUMN upstream.replays.target IS 'Where the messages go, for people.';
COMMENT ON COLUMN upstream.replays.occupies IS 'What no other replay may send to while this one is running or paused.';
COMMENT ON COLUMN upstream.replays.handlers IS 'The handlers that it sends to; replay_messages.handler counts them from 1.';
COMMENT ON COLUMN upstream.replays.only_failed IS 'Whether it takes dead letters only: one that is gone by then is passed over.';
COMMENT ON COLUMN upstream.replays.selection IS 'The filter that selected the messages; what it selected is in replay_messages.';
COMMENT ON COLUMN upstream.replays.options IS 'Rate, pacing, concurrency, format.';
COMMENT ON COLUMN upstream.replays.state IS 'planned, running, paused, finished, cancelled or failed.';
COMMENT ON COLUMN upstream.replays.reason IS 'Why, in the words of whoever planned it.';
COMMENT ON COLUMN upstream.replays.created_by IS 'Who planned it: user and host of the command.';
COMMENT ON COLUMN upstream.replays.created_role IS 'The database role that planned it.';
COMMENT ON COLUMN upstream.replays.created_at IS 'When it was planned.';
COMMENT ON COLUMN upstream.replays.started_at IS 'When its present run began.';
COMMENT ON COLUMN upstream.replays.finished_at IS 'When it ended.';
COMMENT ON COLUMN upstream.replays.planned IS 'How many deliveries (of messages to handlers) or messages the selection holds.';
COMMENT ON COLUMN upstream.replays.first_received_at IS 'The received_at of the first message of the selection.';
COMMENT ON COLUMN upstream.replays.last_received_at IS 'The received_at of the last message of the selection.';
COMMENT ON COLUMN upstream.replays.done IS 'How many of them, from the first on, are done; where a run continues.';
COMMENT ON COLUMN upstream.replays.skipped IS 'How many of those were passed over: the body is gone, or the delivery waits already.';
COMMENT ON COLUMN upstream.replays.bytes IS 'How much of the output file belongs to what is done.';
COMMENT ON COLUMN upstream.replays.runs IS 'How often it was begun from its first message.';
COMMENT ON COLUMN upstream.replays.lease_owner IS 'The process that runs it; null where none does.';
COMMENT ON COLUMN upstream.replays.lease_token IS 'Fencing token: grows with each take-over, and with each change of state.';
COMMENT ON COLUMN upstream.replays.lease_until IS 'When the lease ends unless its owner renews it.';
COMMENT ON COLUMN upstream.replays.last_error IS 'What stopped it last.';
COMMENT ON COLUMN upstream.replays.file IS 'Device and inode of the output file, and of the one of an earlier run that it replaces: what this replay may go on with, or replace.';

-- The selection as it was when it was planned, in the order it is sent in: 1,000 to a row. A row for each message would
-- cost five times the time and the space.
CREATE TABLE upstream.replay_messages (
    replay_id uuid NOT NULL,
    chunk integer NOT NULL,
    received_at timestamptz[] NOT NULL,
    message_key uuid[] NOT NULL,
    handler smallint[],
    CONSTRAINT replay_messages_pkey PRIMARY KEY (replay_id, chunk),
    CONSTRAINT replay_messages_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES upstream.replays ON DELETE CASCADE
);
-- Hashes don't compress.
ALTER TABLE upstream.replay_messages
    ALTER COLUMN received_at SET STORAGE EXTERNAL,
    ALTER COLUMN message_key SET STORAGE EXTERNAL,
    ALTER COLUMN handler SET STORAGE EXTERNAL;
COMMENT ON TABLE upstream.replay_messages IS 'What each replay sends, frozen when it was planned: 1,000 messages to a row, in the order of received_at and message_key.';
COMMENT ON COLUMN upstream.replay_messages.replay_id IS 'The replay.';
COMMENT ON COLUMN upstream.replay_messages.chunk IS 'Counts the replay''s rows from 0.';
COMMENT ON COLUMN upstream.replay_messages.received_at IS 'The messages'' received_at.';
COMMENT ON COLUMN upstream.replay_messages.message_key IS 'The messages'' keys; with received_at the primary key of messages.';
COMMENT ON COLUMN upstream.replay_messages.handler IS 'The handler each goes to, by its place in replays.handlers; null where the target is no handler.';

CREATE TABLE upstream.replay_events (
    replay_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    event text NOT NULL,
    who text NOT NULL,
    role text NOT NULL DEFAULT session_user,
    done bigint NOT NULL,
    detail text,
    CONSTRAINT replay_events_replay_id_fkey FOREIGN KEY (replay_id) REFERENCES upstream.replays ON DELETE CASCADE
);
-- Without a key of its own, a publication FOR ALL TABLES would refuse to change its rows.
ALTER TABLE upstream.replay_events REPLICA IDENTITY FULL;
CREATE INDEX replay_events_replay_id_idx ON upstream.replay_events (replay_id, at);
COMMENT ON TABLE upstream.replay_events IS 'What happened to each replay: who planned, started, paused, resumed, cancelled, took over and ended it, and when.';
COMMENT ON COLUMN upstream.replay_events.replay_id IS 'The replay.';
COMMENT ON COLUMN upstream.replay_events.at IS 'When.';
COMMENT ON COLUMN upstream.replay_events.event IS 'planned, started, paused, resumed, cancelled, taken, released, finished or failed.';
COMMENT ON COLUMN upstream.replay_events.who IS 'User and host of the command, or the worker.';
COMMENT ON COLUMN upstream.replay_events.role IS 'The database role.';
COMMENT ON COLUMN upstream.replay_events.done IS 'How far the replay was.';
COMMENT ON COLUMN upstream.replay_events.detail IS 'More: the reason that was given, or the error.';

-- migrate:down
DROP TABLE upstream.replay_events, upstream.replay_messages, upstream.replays;
