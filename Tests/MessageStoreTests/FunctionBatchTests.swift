import Dispatcher
import Handlers
import Ingest
import Testing
import UpstreamKit
import Vocabulary

/// Handler kind `sql` with several messages in one transaction, against a real server.
@Suite(.timeLimit(.minutes(10))) struct FunctionBatchTests {
    private static let setUp = """
        CREATE SCHEMA app;
        CREATE TABLE app.taken (message_key uuid, at xid8 DEFAULT pg_current_xact_id(), place bigserial);
        CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO app.taken VALUES (message.message_key);
            IF message.data->>'is' = 'bad' THEN RAISE EXCEPTION 'reject: bad'; END IF;
            IF message.data->>'is' = 'slow' THEN PERFORM pg_sleep(600); END IF;
            IF message.data->>'is' = 'fatal' THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;
        END $$;
        CREATE FUNCTION app.take_many(messages upstream.messages[]) RETURNS SETOF text LANGUAGE sql AS $$
            INSERT INTO app.taken (message_key) SELECT message_key FROM unnest(messages) WHERE data->>'is' IS NULL;
            SELECT data->>'is' FROM unnest(messages) WITH ORDINALITY ORDER BY ordinality;
        $$;
        CREATE FUNCTION app.take_array(messages upstream.messages[]) RETURNS text[] LANGUAGE sql AS $$
            SELECT array_agg(answer ORDER BY place) FROM app.take_many(messages) WITH ORDINALITY AS taken (answer, place)
        $$;
        CREATE FUNCTION app.take_all(messages upstream.messages[]) RETURNS void LANGUAGE sql AS $$
            INSERT INTO app.taken (message_key) SELECT message_key FROM unnest(messages)
        $$;
        CREATE FUNCTION app.take_few(messages upstream.messages[]) RETURNS SETOF text LANGUAGE sql AS $$
            INSERT INTO app.taken (message_key) SELECT message_key FROM unnest(messages);
            SELECT NULL
        $$;
        CREATE FUNCTION app.disturbs(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            CREATE TEMP TABLE app_work ON COMMIT DROP AS SELECT 1;
            INSERT INTO app.taken VALUES (message.message_key);
        END $$;
        """

    /// Stores messages with these data, in this order, and claims their deliveries.
    private func fixture(_ data: [String]) async throws -> (DeliveriesFixture, [AttemptCall]) {
        let fixture = try await DeliveriesFixture()
        try await fixture.store.script(Self.setUp)
        let start = IncomingMessage.now()
        _ = try await fixture.writer.commit(
            data.enumerated().map { .make(UInt64($0 + 1), data: $1, receivedAt: start + Int64($0)) }
        )
        let deliveries = try await fixture.claim().sorted { $0.number < $1.number }
        let calls = deliveries.compactMap { delivery -> AttemptCall? in
            guard case .stored(let message) = delivery.content else { return nil }
            return AttemptCall(delivery, message, .within(.seconds(4)))
        }
        try #require(calls.count == data.count)
        return (fixture, calls)
    }

    private func call(_ fixture: DeliveriesFixture, _ name: String, _ calls: [AttemptCall]) async throws -> CallEnd {
        let recording = AttemptRecording(worker: "host:1", isWanted: true)
        let caller = FunctionCaller(fixture.store.settings, recording: recording)
        let end = await caller.call(try #require(SQLFunction(name)), handler: "orders", calls)
        await caller.close()
        return end
    }

    private func isSettled(_ end: AttemptEnd) -> Bool { if case .settled = end { true } else { false } }

    private func effects(_ fixture: DeliveriesFixture) async throws -> String? {
        try await fixture.store.text(
            """
            SELECT concat_ws(' ', count(*), count(DISTINCT message_key), count(DISTINCT at)) FROM app.taken
            """
        )
    }

    @Test(
        "messages are taken in one transaction, in their order, and each is in the history",
        arguments: ["app.take", "app.take_many", "app.take_all"]
    )
    func together(_ name: String) async throws {
        let (fixture, calls) = try await fixture(Array(repeating: "{}", count: 50))
        let end = try await call(fixture, name, calls)
        #expect(end.ends.allSatisfy(isSettled) && end.ends.count == 50 && end.areTogether)
        #expect(try await effects(fixture) == "50 50 1")
        #expect(try await fixture.count() == 0)
        let order = """
            SELECT (array_agg(number ORDER BY place) = array_agg(number ORDER BY number))::text
            FROM app.taken, substring(message_key::text FROM 20) AS number
            """
        #expect(try await fixture.store.text(order) == "true")
        #expect(try await fixture.store.integer("SELECT count(*) FROM upstream.attempts WHERE outcome = 'done'") == 50)
    }

    @Test("one bad message ends alone, and costs the others nothing")
    func oneIsBad() async throws {
        var data = Array(repeating: "{}", count: 50)
        data[37] = #"{"is":"bad"}"#
        let (fixture, calls) = try await fixture(data)
        let end = try await call(fixture, "app.take", calls)
        for (index, one) in end.ends.enumerated() where index != 37 { #expect(isSettled(one), "\(index)") }
        guard case .verdict(.reject(let failure)) = end.ends[37] else {
            Issue.record("\(end.ends[37])")
            return
        }
        #expect(failure.detail == "bad" && end.areTogether)
        #expect(try await fixture.store.integer("SELECT count(DISTINCT message_key) FROM app.taken") == 49)
        #expect(try await fixture.store.integer("SELECT count(*) FROM app.taken") == 49)
        #expect(try await fixture.count() == 1)
    }

    @Test(
        "what a function over arrays answers for each message counts, and what it does not answer is a failure",
        arguments: ["app.take_many", "app.take_array"]
    )
    func answers(_ name: String) async throws {
        let (fixture, calls) = try await fixture([
            "{}", #"{"is":"reject: odd"}"#, #"{"is":"closed"}"#, #"{"is":""}"#,
        ])
        let end = try await call(fixture, name, calls)
        #expect(isSettled(end.ends[0]) && isSettled(end.ends[3]) && end.areTogether)
        guard case .verdict(.reject(let odd)) = end.ends[1], case .verdict(.retry(nil, let closed)) = end.ends[2] else {
            Issue.record("\(end.ends)")
            return
        }
        #expect(odd.detail == "odd" && closed.detail == "closed")
        #expect(try await fixture.count() == 2)
        let (second, others) = try await self.fixture(["{}", "{}", "{}"])
        // One answer for one message is enough.
        let few = try await call(second, "app.take_few", others)
        #expect(few.ends.allSatisfy(isSettled) && !few.areTogether)
        #expect(try await effects(second) == "3 3 3")
    }

    @Test("a function that comes to answer is asked for its answers, in the same worker")
    func comesToAnswer() async throws {
        let (fixture, calls) = try await fixture([#"{"is":"no"}"#, #"{"is":"no"}"#])
        let caller = FunctionCaller(fixture.store.settings)
        let function = try #require(SQLFunction("app.take_all"))
        var none = calls
        for index in none.indices { none[index].delivery.lease.token += 1 }
        for end in await caller.call(function, handler: "orders", none).ends {
            guard case .lost = end else {
                Issue.record("\(end)")
                return
            }
        }
        try await fixture.store.script(
            """
            DROP FUNCTION app.take_all(upstream.messages[]);
            ALTER FUNCTION app.take_many(upstream.messages[]) RENAME TO take_all
            """
        )
        for end in await caller.call(function, handler: "orders", calls).ends {
            guard case .verdict(.retry) = end else {
                Issue.record("\(end)")
                return
            }
        }
        #expect(try await fixture.count() == 2)
        await caller.close()
    }

    @Test("a lease that was lost costs its message alone, without an effect")
    func lost() async throws {
        var (fixture, calls) = try await fixture(["{}", "{}", "{}"])
        calls[1].delivery.lease.token += 1
        for name in ["app.take", "app.take_many"] {
            let end = try await call(fixture, name, name == "app.take" ? calls : [calls[1]])
            guard case .lost = end.ends[name == "app.take" ? 1 : 0] else {
                Issue.record("\(end.ends)")
                return
            }
        }
        #expect(try await effects(fixture) == "2 2 1")
        #expect(try await fixture.count() == 1)
    }

    @Test("a message that is gone is rejected, alone")
    func missing() async throws {
        for name in ["app.take", "app.take_many", "app.take_all"] {
            let (fixture, calls) = try await fixture(["{}", "{}", "{}"])
            try await fixture.store.script(
                "DELETE FROM upstream.messages WHERE message_key = '\(calls[2].message.messageKey)'"
            )
            let end = try await call(fixture, name, calls)
            #expect(isSettled(end.ends[0]) && isSettled(end.ends[1]))
            guard case .verdict(.reject(.missing)) = end.ends[2] else {
                Issue.record("\(end.ends)")
                return
            }
        }
    }

    @Test("messages over their time, or whose session ended, are to go alone, uncounted", arguments: ["slow", "fatal"])
    func alone(_ kind: String) async throws {
        let (fixture, calls) = try await fixture(["{}", #"{"is":"\#(kind)"}"#, "{}"])
        let end = try await call(fixture, "app.take", calls)
        for one in end.ends {
            guard case .alone = one else {
                Issue.record("\(one)")
                return
            }
        }
        #expect(!end.areTogether)
        #expect(try await effects(fixture) == "0 0 0")
    }

    @Test("messages that disturb each other are taken one by one")
    func disturbing() async throws {
        let (fixture, calls) = try await fixture(Array(repeating: "{}", count: 5))
        let end = try await call(fixture, "app.disturbs", calls)
        #expect(end.ends.allSatisfy(isSettled) && !end.areTogether)
        #expect(try await effects(fixture) == "5 5 5")
    }

    @Test("where the function is missing, nothing is charged to any message, and the next call finds it")
    func missingFunction() async throws {
        let (fixture, calls) = try await fixture(["{}", "{}", "{}"])
        let caller = FunctionCaller(fixture.store.settings)
        let function = try #require(SQLFunction("app.later"))
        let missing = await caller.call(function, handler: "orders", calls).ends
        guard case .verdict(.unavailable) = missing[0], case .alone = missing[1], case .alone = missing[2] else {
            Issue.record("\(missing)")
            return
        }
        try await fixture.store.script("ALTER FUNCTION app.take_all(upstream.messages[]) RENAME TO later")
        #expect(await caller.call(function, handler: "orders", calls).ends.allSatisfy(isSettled))
        // Its owners replace it by one that takes a message.
        try await fixture.receive(10...12)
        let more = try await fixture.claim().compactMap { delivery -> AttemptCall? in
            guard case .stored(let message) = delivery.content else { return nil }
            return AttemptCall(delivery, message, .within(.seconds(4)))
        }
        try await fixture.store.script(
            "DROP FUNCTION app.later(upstream.messages[]); ALTER FUNCTION app.take(upstream.messages) RENAME TO later"
        )
        #expect(await caller.call(function, handler: "orders", more).ends.allSatisfy(isSettled))
        #expect(try await effects(fixture) == "6 6 2")
        await caller.close()
    }
}

extension FunctionCaller {
    /// One attempt at a message under a token.
    func call(
        _ function: SQLFunction,
        handler: String,
        _ message: UpstreamMessage,
        token: Int64,
        for time: Duration = .seconds(30)
    ) async -> AttemptEnd {
        let lease = Lease(token: token, deadline: .now + .seconds(60))
        let delivery = Delivery(content: .stored(message), messageKey: message.messageKey.digest, lease: lease)
        return await call(function, handler: handler, [AttemptCall(delivery, message, .within(time))]).ends[0]
    }
}

extension HandlerContext {
    static func within(_ time: Duration) -> HandlerContext {
        HandlerContext(handler: "orders", attempt: 1, replayID: nil, deadline: .now + time)
    }
}
