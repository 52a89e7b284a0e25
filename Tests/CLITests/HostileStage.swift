import QuerySupport

extension CommandStage {
    /// Tables whose every text holds what a terminal acts on.
    static func hostile() async throws -> CommandStage {
        let stage = try await CommandStage(Awkward.seeds)
        try await fill(stage.fixture)
        return stage
    }

    /// Adds what stands beside the messages.
    static func fill(_ fixture: QueryFixture) async throws {
        let conflicts = Awkward.seeds.map { seed in
            var seed = seed
            (seed.data, seed.raw) = (#"{"other":1}"#, nil)
            return seed
        }
        try await fixture.add(conflicts, into: "conflicts")
        try await fixture.script(content)
    }

    private static let content = """
        CREATE FUNCTION public.h(text) RETURNS text IMMUTABLE LANGUAGE sql AS $$
            SELECT $1 || chr(27) || '[2J' || chr(27) || ']0;x' || chr(7) || chr(155) || '31m' || chr(127) || chr(13)
                || chr(10) || chr(8) || chr(8238) || chr(8232) || chr(8297) || chr(8203) || chr(133)
        $$;
        INSERT INTO upstream.handlers (name, paused, paused_reason) VALUES (h('a'), true, h('r')), ('b', false, NULL);
        INSERT INTO upstream.subscriptions VALUES (h('a'), h('c')), ('b', '*');
        INSERT INTO upstream.handler_workers (token, handler, worker, categories, by_device)
        VALUES (1, h('a'), h('w'), ARRAY[h('c')], true);
        INSERT INTO upstream.deliveries (
            handler, message_key, received_at, next_attempt_at, last_error, lease_owner, lease_until)
        SELECT h('a'), message_key, received_at, now(), h('e'), h('o'), now() FROM upstream.messages;
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group)
        SELECT h('a'), message_key, received_at, 1, now(), 0, h('e'), h('g') FROM upstream.messages;
        INSERT INTO upstream.quarantine (
            sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
        VALUES (
            h('s'), h('m'), 'category_unusable', h('d'), convert_to(h('<message/>'), 'UTF8'), 'x', 1, now(), now());
        INSERT INTO upstream.replays (
            name, kind, target, occupies, handlers, selection, options, state, reason, created_by, planned, lease_owner,
            lease_until, started_at, done, last_error)
        VALUES (
            h('r'), 'handlers', h('t'), '{}', ARRAY[h('a')], to_json(h('s')), '{"pace":{}}', 'running', h('w'),
            h('b'), 10, h('o'), now() + interval '1 hour', now() - interval '1 hour', 5, h('e'));
        INSERT INTO upstream.replay_events (replay_id, event, who, done, detail)
        SELECT replay_id, h('e'), h('w'), 1, h('d') FROM upstream.replays;
        ANALYZE upstream.messages;
        """

    /// Every command that shows rows, and the formats that it has besides its text.
    func listings() async throws -> [(command: [String], formats: [String])] {
        let replay = try await fixture.text("SELECT replay_id::text FROM upstream.replays") ?? ""
        let found = "SELECT message_key::text FROM upstream.messages WHERE message_id LIKE chr(27) || '%'"
        let key = try await fixture.text(found) ?? ""
        return [
            (["messages", "list", "--reveal"], ["--json", "--ndjson", "--csv"]),
            (["messages", "tail", "--limit", "50"], ["--ndjson", "--csv"]),
            (["messages", "show", key, "--reveal"], ["--json"]),
            (["conflicts", "list"], ["--json", "--ndjson"]), (["conflicts", "show", key], ["--json"]),
            (["quarantine", "list"], ["--json", "--ndjson"]), (["quarantine", "show", "1"], ["--json"]),
            (["handlers", "list"], ["--json"]), (["dead", "list"], ["--json"]), (["dead", "show", key], ["--json"]),
            (["dead", "groups"], ["--json"]), (["replay", "status"], ["--json"]),
            (["replay", "status", replay], ["--json"]),
            (["replay", "plan", "x", "--to-handlers", "--dry-run", "--include-succeeded"], ["--json"]),
            (["stats", "10ms"], ["--json"]), (["partitions", "plan"], ["--json"]),
            (["partitions", "policy"], ["--json"]), (["partitions", "run", "--dry-run"], ["--json"]),
            (["migrate", "status"], ["--json"]),
        ]
    }
}
