import Dispatcher
import Foundation
import Handlers
import Postgres
import Testing
import UpstreamKit
import Vocabulary

/// The handler kind `sql` against a real server.
@Suite(.timeLimit(.minutes(10))) struct FunctionCallerTests {
    private static let setUp = """
        CREATE SCHEMA app;
        CREATE TABLE app.orders (message_key uuid, item text, CONSTRAINT one_each UNIQUE (message_key)
            DEFERRABLE INITIALLY DEFERRED);
        CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO app.orders VALUES (message.message_key, message.data->>'item');
            IF message.data->>'item' = 'bad' THEN RAISE EXCEPTION 'reject: no such item'; END IF;
            IF message.data->>'item' = 'later' THEN RAISE EXCEPTION 'the shop is closed'; END IF;
            IF message.data->>'item' = 'twice' THEN
                INSERT INTO app.orders VALUES (message.message_key, 'again');
            END IF;
            IF message.data->>'item' = 'slow' THEN PERFORM pg_sleep(600); END IF;
            IF message.data->>'item' = 'odd' THEN RAISE EXCEPTION 'cannot digest it' USING ERRCODE = 'XX000'; END IF;
            IF message.data->>'item' = 'unhurried' THEN PERFORM pg_sleep(2); END IF;
        END $$;
        CREATE FUNCTION app.nothing(message upstream.messages) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1 WHERE false';
        """

    /// A database with one message and its delivery under token 7.
    private func fixture(item: String) async throws -> (StoreFixture, UpstreamMessage) {
        let fixture = try await StoreFixture()
        try await fixture.script(Self.setUp)
        var message = UpstreamMessage.sample(category: "a", data: #"{"item":"\#(item)"}"#)
        let now = try #require(try await fixture.integer("SELECT (extract(epoch FROM now()) * 1e6)::bigint"))
        message.receivedAtMicroseconds = now
        let time = "'epoch'::timestamptz + \(now) * interval '1 microsecond'"
        try await fixture.script(
            """
            INSERT INTO upstream.messages (message_key, sender_id, message_id, registration_token, device_key, category,
                data, received_at)
            VALUES ('\(message.messageKey)', 's', 'm', 't', '\(message.deviceKey)', 'a', '{"item":"\(item)"}', \(time));
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, lease_token)
            VALUES ('h', '\(message.messageKey)', \(time), now(), 7)
            """
        )
        return (fixture, message)
    }

    private func call(
        _ fixture: StoreFixture,
        _ message: UpstreamMessage,
        function: String = "app.take",
        token: Int64 = 7,
        timeout: Duration = .seconds(30),
        settings: PostgresSettings? = nil
    ) async throws -> AttemptEnd {
        let caller = FunctionCaller(settings ?? fixture.settings)
        let function = try #require(SQLFunction(function))
        let end = await caller.call(function, handler: "h", message, token: token, for: timeout)
        await caller.close()
        return end
    }

    private func verdict(_ end: AttemptEnd) -> HandlerVerdict? {
        guard case .verdict(let verdict) = end else { return nil }
        return verdict
    }

    @Test("A function's effects and the completion commit together")
    func effectsAndCompletionCommitTogether() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        guard case .settled = try await call(fixture, message) else {
            Issue.record("not settled")
            return
        }
        #expect(try await fixture.integer("SELECT count(*) FROM app.orders WHERE item = 'tea'") == 1)
        #expect(try await fixture.count("deliveries") == 0)
        // The same lease once more, as after a lost reply: it fails, and nothing happens twice.
        if case .settled = try await call(fixture, message) { Issue.record("settled twice") }
        #expect(try await fixture.integer("SELECT count(*) FROM app.orders") == 1)
    }

    @Test("The example of a SQL handler works as documented")
    func theExampleWorks() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        try await fixture.script(
            """
            DROP SCHEMA app CASCADE;
            DO $$ BEGIN CREATE ROLE upstream_worker; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$
            """
        )
        let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        try await fixture.script(
            String(contentsOf: package.appending(path: "Examples/sql/orders.sql"), encoding: .utf8)
        )
        guard case .settled = try await call(fixture, message, function: "app.take_order") else {
            Issue.record("not settled")
            return
        }
        #expect(try await fixture.integer("SELECT quantity::bigint FROM app.orders WHERE item = 'tea'") == 1)
    }

    @Test("A lost lease rolls the effects back")
    func aLostLeaseLosesTheEffects() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        guard case .lost = try await call(fixture, message, token: 6) else {
            Issue.record("ran under an old token")
            return
        }
        #expect(try await fixture.integer("SELECT count(*) FROM app.orders") == 0)
        #expect(try await fixture.count("deliveries") == 1)
    }

    @Test("Failures roll the effects back and keep the delivery")
    func failuresUndoTheEffectsAndKeepTheDelivery() async throws {
        let cases: [(String, HandlerVerdict)] = [
            ("bad", .reject(HandlerFailure("no such item"))),
            (
                "later",
                .retry(
                    after: nil,
                    HandlerFailure(group: "sql P0001", detail: "the shop is closed (SQLSTATE P0001)")
                )
            ),
        ]
        for (item, expected) in cases {
            let (fixture, message) = try await fixture(item: item)
            #expect(verdict(try await call(fixture, message)) == expected)
            #expect(try await fixture.integer("SELECT count(*) FROM app.orders") == 0)
            #expect(try await fixture.count("deliveries") == 1)
        }
    }

    @Test("A deferred constraint that fails is the message's failure")
    func aDeferredConstraintIsTheMessagesFailure() async throws {
        let (fixture, message) = try await fixture(item: "twice")
        guard case .retry(_, let failure) = verdict(try await call(fixture, message)) else {
            Issue.record("not a retry")
            return
        }
        #expect(failure.group == "sql 23505")
        #expect(try await fixture.count("deliveries") == 1)
    }

    @Test("The server cancels a call over its deadline")
    func aCallOverItsDeadlineIsCancelledByTheServer() async throws {
        let (fixture, message) = try await fixture(item: "slow")
        guard case .retry(_, let failure) = verdict(try await call(fixture, message, timeout: .milliseconds(300)))
        else {
            Issue.record("not a retry")
            return
        }
        #expect(failure.group == "sql 57014")
        #expect(try await fixture.integer("SELECT count(*) FROM app.orders") == 0)
    }

    @Test("A function may take longer than other statements")
    func aFunctionMayTakeLongerThanOtherStatements() async throws {
        let (fixture, message) = try await fixture(item: "unhurried")
        var settings = fixture.settings
        settings.statementTimeout = 200
        guard case .settled = try await call(fixture, message, settings: settings) else {
            Issue.record("not settled")
            return
        }
        #expect(try await fixture.count("deliveries") == 0)
    }

    @Test("An error without an SQLSTATE is the message's failure")
    func anErrorWithoutACodeIsTheMessagesFailure() async throws {
        let (fixture, message) = try await fixture(item: "odd")
        guard case .retry(_, let failure) = verdict(try await call(fixture, message)) else {
            Issue.record("not a retry")
            return
        }
        #expect(failure.logText == "sql XX000")
    }

    @Test("A function's error text stays in the database")
    func aFunctionsOwnWordsStayInTheDatabase() async throws {
        let (fixture, message) = try await fixture(item: "bad")
        guard case .reject(let failure) = verdict(try await call(fixture, message)) else {
            Issue.record("not rejected")
            return
        }
        #expect(failure.detail == "no such item" && failure.group == "no such item")
        #expect(!failure.logText.contains("such item"))
    }

    @Test("nothing of its session that a function changes reaches the next message's call", arguments: [false, true])
    func sessionParameters(isPooled: Bool) async throws {
        let (fixture, message) = try await fixture(item: "tea")
        try await fixture.script(
            """
            CREATE TABLE app.seen (value text);
            CREATE TABLE app.kept (what text);
            CREATE FUNCTION app.leaves(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                INSERT INTO app.seen VALUES (current_setting('search_path') || coalesce(current_setting('app.x', true), ''));
                PERFORM set_config('search_path', 'app', false), set_config('app.x', 'left behind', false);
                INSERT INTO app.kept SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()
                    UNION ALL SELECT 'channel ' || pg_listening_channels()
                    UNION ALL SELECT 'statement ' || name FROM pg_prepared_statements WHERE from_sql
                    UNION ALL SELECT 'cursor ' || name FROM pg_cursors WHERE is_holdable
                    UNION ALL SELECT locktype FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory';
                CREATE TEMP TABLE deliveries (n int);
                LISTEN anything;
                EXECUTE 'PREPARE mine AS SELECT 1';
                EXECUTE 'DECLARE held CURSOR WITH HOLD FOR SELECT 1';
                PERFORM pg_advisory_lock(4711);
                IF message.message_id = 'fails' THEN RAISE 'no'; END IF;
            END $$;
            """
        )
        // With one connection to the server, so that each call meets the session of the last one.
        let pooler = isPooled ? try Pgbouncer(before: SharedCluster.cluster) : nil
        defer { pooler?.stop() }
        let settings = try pooler?.settings(fixture) ?? fixture.settings
        if let pooler { await (try await pooler.connect(settings)).close() }
        let caller = FunctionCaller(settings)
        let function = try #require(SQLFunction("app.leaves"))
        for _ in 0..<2 {
            let end = await caller.call(function, handler: "h", message, token: 7)
            guard case .settled = end else {
                Issue.record("not settled")
                break
            }
            try await fixture.script(
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, lease_token)
                SELECT 'h', message_key, received_at, now(), 7 FROM upstream.messages
                """
            )
        }
        // What is not undone with a transaction: locks of the session, and prepared statements.
        try await fixture.script("UPDATE upstream.messages SET message_id = 'fails'")
        for _ in 0..<2 {
            let end = await caller.call(function, handler: "h", message, token: 7)
            guard case .retry(_, let failure) = verdict(end) else {
                Issue.record("not a retry")
                break
            }
            #expect(failure.detail.contains("P0001"))
        }
        try await fixture.waitUntil("SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711")
        await caller.close()
        #expect(try await fixture.text("SELECT string_agg(what, ', ') FROM app.kept") == nil)
        #expect(try await fixture.integer("SELECT count(*) FROM app.seen") == 2)
        #expect(try await fixture.text("SELECT string_agg(DISTINCT value, ' | ') FROM app.seen") == "\"$user\", public")
    }

    @Test(
        "a function that deallocates every prepared statement costs neither its own call nor another's next anything",
        arguments: [false, true]
    )
    func deallocates(isRecorded: Bool) async throws {
        let (fixture, message) = try await fixture(item: "tea")
        try await fixture.script(
            """
            CREATE FUNCTION app.deallocates(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                EXECUTE 'DEALLOCATE ALL';
                RAISE 'no';
            END $$;
            CREATE FUNCTION app.forgets(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
                EXECUTE 'DEALLOCATE ALL';
            END $$
            """
        )
        let recording = AttemptRecording(worker: "w", isWanted: true) { Issue.record("no history: \($0)") }
        let caller = FunctionCaller(fixture.settings, recording: isRecorded ? recording : nil)
        let names = ["app.nothing", "app.deallocates", "app.nothing", "app.forgets", "app.nothing"]
        for (name, isSettled) in zip(names, [true, false, true, true, true]) {
            try await fixture.script(
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, lease_token)
                SELECT 'h', message_key, received_at, now(), 7 FROM upstream.messages ON CONFLICT DO NOTHING
                """
            )
            let end = await caller.call(try #require(SQLFunction(name)), handler: "h", message, token: 7)
            if case .settled = end { #expect(isSettled) } else { #expect(!isSettled, "\(name): \(end)") }
        }
        await caller.close()
    }

    @Test("A missing function counts no attempt against the message")
    func aMissingFunctionIsNotTheMessagesFault() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        guard case .unavailable = verdict(try await call(fixture, message, function: "app.nowhere")) else {
            Issue.record("charged to the message")
            return
        }
    }

    @Test("A backend that dies during the call is an interruption")
    func aBackendThatEndsInsideTheCallIsAnInterruption() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        try await fixture.script(
            """
            CREATE FUNCTION app.ends(message upstream.messages) RETURNS void LANGUAGE sql
            AS 'SELECT pg_terminate_backend(pg_backend_pid())'
            """
        )
        guard case .interrupted = verdict(try await call(fixture, message, function: "app.ends")) else {
            Issue.record("not an interruption")
            return
        }
        #expect(try await fixture.count("deliveries") == 1)
    }

    @Test("An empty result set is a success")
    func anEmptySetIsASuccess() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        guard case .settled = try await call(fixture, message, function: "app.nothing") else {
            Issue.record("not settled")
            return
        }
    }

    @Test("A message past retention is rejected")
    func aMessagePastRetentionIsRejected() async throws {
        let (fixture, message) = try await fixture(item: "tea")
        try await fixture.script("DELETE FROM upstream.messages")
        #expect(verdict(try await call(fixture, message)) == .reject(.missing))
        #expect(try await fixture.count("deliveries") == 1)
    }
}
