import Dispatcher
import Handlers
import Ingest
import IntegrationSupport
import MessageStore
import Postgres
import Telemetry
import Testing
import UpstreamKit
import Vocabulary

/// Handler kind `sql`, dispatched from the table: what one message's call does to it, and to others.
@Suite(.timeLimit(.minutes(10))) struct FunctionFaultTests {
    private static let setUp = """
        CREATE SCHEMA app;
        CREATE TABLE app.taken (message_key uuid);
        DO $$ BEGIN CREATE ROLE upstream_nobody; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
        CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE plpgsql AS $body$
        DECLARE code text := message.data->>'code';
        BEGIN
            CASE
            WHEN code IS NULL THEN INSERT INTO app.taken VALUES (message.message_key);
            WHEN code = 'terminate' THEN PERFORM pg_terminate_backend(pg_backend_pid());
            WHEN code = 'cancel' THEN PERFORM pg_cancel_backend(pg_backend_pid()); PERFORM pg_sleep(60);
            WHEN code = 'sleep' THEN PERFORM pg_sleep(60);
            WHEN code = 'role' THEN SET LOCAL ROLE upstream_nobody;
            WHEN code = 'commit' THEN COMMIT;
            WHEN code = 'read only' THEN SET LOCAL transaction_read_only = on; INSERT INTO app.taken VALUES (NULL);
            WHEN code = 'no table' THEN EXECUTE 'SELECT * FROM nowhere';
            WHEN code = 'no function' THEN EXECUTE 'SELECT app.take(1)';
            ELSE RAISE EXCEPTION 'raised by hand' USING ERRCODE = code;
            END CASE;
        END $body$;
        """

    private static let codes = [
        "42501", "42P01", "42883", "3F000", "53100", "53200", "53300", "57014", "57P01", "57P03", "08000", "08006",
        "58030", "25006", "28000", "XX000", "XX001", "40001", "55P03", "0A000", "terminate", "cancel", "sleep", "role",
        "commit", "read only", "no table", "no function",
    ]

    private func fixture() async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture()
        try await fixture.store.script(Self.setUp)
        return fixture
    }

    private func service(
        _ fixture: DeliveriesFixture,
        _ caller: FunctionCaller,
        metrics: Metrics,
        function: String = "app.take",
        batch: Int = 1,
        _ change: (inout HandlerRegistration) -> Void = { _ in }
    ) throws -> DispatchService {
        let function = try #require(SQLFunction(function))
        var registration = HandlerRegistration(
            name: "orders",
            categories: .all,
            body: .function(function, batch: batch)
        )
        registration.retry = RetryPolicy(maxAttempts: 2, initial: .milliseconds(1), maximum: .milliseconds(5))
        registration.timeout = .milliseconds(500)
        change(&registration)
        var settings = DispatchSettings()
        settings.poll = .milliseconds(20)
        settings.drain = .milliseconds(100)
        settings.breaker.threshold = 5
        return DispatchService(
            store: fixture.another(),
            registrations: [registration],
            senderIDs: StoreFixture.senders,
            settings: settings,
            metrics: metrics,
            logger: .quiet,
            execute: { registration, calls in await caller.call(function, handler: registration.name, calls) }
        )
    }

    private func metrics() -> Metrics { Metrics(senders: [], categories: [], handlers: ["orders"], version: "test") }

    @Test(
        "whatever a function raises or does over one message, the message ends as a dead letter, and others are taken",
        arguments: [1, 100]
    )
    func inside(_ most: Int) async throws {
        let fixture = try await fixture()
        let start = IncomingMessage.now()
        var batch: [IncomingMessage] = []
        for (index, code) in Self.codes.enumerated() {
            let number = UInt64(index * 2 + 1)
            batch.append(.make(number, data: #"{"code":"\#(code)"}"#, receivedAt: start + Int64(number)))
            batch.append(.make(number + 1, data: "{}", receivedAt: start + Int64(number) + 1))
        }
        _ = try await fixture.writer.commit(batch)
        let caller = FunctionCaller(fixture.store.settings)
        let metrics = metrics()
        try await fixture.run(try service(fixture, caller, metrics: metrics, batch: most)) {
            try await fixture.store.waitUntil("SELECT count(*) = 0 FROM upstream.deliveries")
        }
        await caller.close()
        #expect(try await fixture.store.integer("SELECT count(*) FROM app.taken") == Int64(Self.codes.count))
        let dead = """
            SELECT count(*) FROM upstream.dead_letters
            WHERE attempts = 2 AND last_error <> '' AND (error_group LIKE 'sql %' OR error_group = 'timeout')
            """
        #expect(try await fixture.store.integer(dead) == Int64(Self.codes.count))
        // Only those that end the session are tried without being counted, three times each; among others, these as well.
        if most == 1 { #expect(metrics.handler(0).deliveries[.released].value == 3) }
    }

    @Test("a call that can't begin is not the message's fault, and its reason stands in last_error")
    func outside() async throws {
        let fixture = try await fixture()
        try await fixture.receive(1...1)
        let attempts: [(String, String)] = [
            ("app.nowhere", ""), ("nowhere.take", ""),
            ("app.take", "REVOKE EXECUTE ON FUNCTION app.take(upstream.messages) FROM PUBLIC, upstream_least"),
            ("app.take", "REVOKE USAGE ON SCHEMA app FROM upstream_least"),
        ]
        try await fixture.store.script(
            """
            DO $$ BEGIN CREATE ROLE upstream_least LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
            GRANT USAGE ON SCHEMA upstream, app TO upstream_least;
            GRANT SELECT, UPDATE, DELETE ON ALL TABLES IN SCHEMA upstream TO upstream_least;
            """
        )
        for (name, sql) in attempts {
            if !sql.isEmpty { try await fixture.store.script(sql) }
            let function = try #require(SQLFunction(name))
            let url = fixture.store.settings.url.replacing("user=upstream", with: "user=upstream_least")
            let caller = FunctionCaller(try PostgresSettings(url: url))
            let delivery = try #require(try await fixture.claim().first)
            guard case .stored(let message) = delivery.content else {
                Issue.record("no message")
                return
            }
            let end = await caller.call(function, handler: "orders", message, token: delivery.lease.token)
            await caller.close()
            guard case .verdict(.unavailable(_, let failure)) = end else {
                Issue.record("\(name), \(sql): \(end)")
                return
            }
            let settlement = delivery.settled(.release(after: .zero, noting: failure))
            #expect(try await fixture.deliveries.settle([settlement], of: "orders") == 1)
            let noted = "attempts = 0 AND last_error = '\(failure.detail.replacing("'", with: "''"))'"
            #expect(try await fixture.count(noted) == 1, "\(failure.detail)")
        }
    }

    @Test("for a probe, what was never tried is claimed before what failed")
    func untriedFirst() async throws {
        for ordering in HandlerOrdering.allCases {
            let fixture = try await DeliveriesFixture([.make("orders", ordering: ordering)])
            let start = IncomingMessage.now()
            let batch = (1...3 as ClosedRange<UInt64>).map { number in
                var message = IncomingMessage.make(number, receivedAt: start + Int64(number))
                message.deviceKey = Digest128(high: 7, low: number)
                return message
            }
            _ = try await fixture.writer.commit(batch)
            let isOrdered = ordering == .device
            let all = try await fixture.claim(.make(ordered: isOrdered))
            try #require(all.count == 3)
            let failure = HandlerFailure(group: "no", detail: "no")
            let settlements = all.map { delivery in
                let outcome = Settlement.Outcome.retry(after: .zero, failure)
                return delivery.settled(delivery.number == 3 ? .release(after: .zero) : outcome)
            }
            #expect(try await fixture.deliveries.settle(settlements, of: "orders") == 3)
            var request = ClaimRequest.make(limit: 1, ordered: isOrdered)
            request.isForUntried = true
            #expect(try await fixture.claim(request).map(\.number) == [3])
            #expect(try await fixture.claim(request).isEmpty)
            guard ordering == .none else { continue }
            // The newest of them: those before it may be what opened the breaker.
            try await fixture.receive(4...6)
            try await fixture.store.script(
                "UPDATE upstream.deliveries SET next_attempt_at = received_at WHERE attempts = 0"
            )
            try await fixture.store.waitUntil(
                "SELECT count(*) = 3 FROM upstream.deliveries WHERE attempts = 0 AND lease_until IS NULL AND received_at < now()"
            )
            #expect(try await fixture.claim(request).map(\.number) == [6])
        }
    }
}
