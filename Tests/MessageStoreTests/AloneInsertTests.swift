import Digests
import Dispatcher
import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

/// `upstream.store_batch` is dropped where a test is to show that it isn't needed.
@Suite("a message that comes alone")
struct AloneInsertTests {
    static let dropBatch = """
        DO $$ BEGIN
            EXECUTE (SELECT string_agg('DROP FUNCTION ' || oid::regprocedure, '; ') FROM pg_proc WHERE proname = 'store_batch');
        END $$
        """
    /// From here on whoever calls `upstream.store_one` fails.
    static let breakOne = """
        DO $$ BEGIN
            EXECUTE (
                SELECT replace(pg_get_functiondef(oid), 'BEGIN', 'BEGIN RAISE EXCEPTION USING ERRCODE = ''XX000'';')
                FROM pg_proc WHERE proname = 'store_one'
            );
        END $$
        """

    /// A database that knows the sender: messages of both kinds of keys are there.
    private func fixture() async throws -> StoreFixture {
        let fixture = try await StoreFixture()
        for message in [IncomingMessage.make(1001), sender(1002)] {
            #expect(try await fixture.store().commit([message]) == [.stored])
        }
        return fixture
    }

    private func sender(_ number: UInt64) -> IncomingMessage {
        var message = IncomingMessage.make(number)
        message.messageKey = Digest128(hashing: "\(StoreFixture.senders[0])\0m-\(number)")
        message.isKeyedByDevice = false
        return message
    }

    private func whole(_ number: UInt64, isOfSender: Bool) -> IncomingMessage {
        var message = isOfSender ? sender(number) : IncomingMessage.make(number)
        func add(_ text: String) -> ByteSpan {
            let start = message.bytes.count
            message.bytes += text.utf8
            return ByteSpan(start: start, count: message.bytes.count - start)
        }
        message.deviceKey = Digest128(hashing: "device \(number)")
        message.extra = add(#"{"time_to_live":5,"ä":"\u{1F600}"}"#)
        message.messageType = add("receipt")
        message.stanzaFrom = add("devices@gcm.googleapis.com")
        return message
    }

    @Test("it has the same rows as one in a batch, in every column", arguments: [true, false])
    func sameRows(isOfSender: Bool) async throws {
        var plain = isOfSender ? sender(2) : IncomingMessage.make(2)
        plain.data = nil
        plain.dataForm = .absent
        var raw = isOfSender ? sender(3) : IncomingMessage.make(3, data: #"{"a":"\u0000"}"#)
        raw.dataForm = .raw
        let messages = [whole(1, isOfSender: isOfSender), plain, raw]
        let rows = """
            SELECT string_agg(to_jsonb(m)::text || to_jsonb(i)::text, E'\\n' ORDER BY m.message_id)
            FROM upstream.messages AS m JOIN upstream.message_ids AS i USING (message_key)
            WHERE m.message_id IN ('m-1', 'm-2', 'm-3')
            """
        let together = try await fixture()
        #expect(try await together.store().commit(messages) == [.stored, .stored, .stored])
        let alone = try await fixture()
        try await alone.script(Self.dropBatch)
        let store = alone.store()
        for message in messages { #expect(try await store.commit([message]) == [.stored]) }
        let expected = try #require(try await together.text(rows))
        #expect(expected.split(separator: "\n").count == 3)
        #expect(try await alone.text(rows) == expected)
    }

    @Test("its copies are duplicates and conflicts, and a known sender's first message of another kind is stored")
    func known() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let first = IncomingMessage.make(1)
        // The first of its sender, then of its sender's other kind of keys.
        #expect(try await store.commit([first]) == [.stored])
        #expect(try await store.commit([sender(2)]) == [.stored])
        #expect(
            try await fixture.text(
                "SELECT string_agg(sender_id || id_scope, ' ' ORDER BY id_scope) FROM upstream.senders"
            )
                == "1234567890device 1234567890sender"
        )
        #expect(try await store.commit([first.copy()]) == [.duplicate])
        #expect(try await store.commit([first.copy(fingerprint: 2)]) == [.conflict])
        #expect(try await store.commit([first], leasing: .none, isRetry: true) == [.stored])
        #expect(try await fixture.count("messages") == 2)
        #expect(try await fixture.count("message_ids") == 2)
        #expect(try await fixture.count("conflicts") == 1)
    }

    /// G1 where `upstream.store_one` alone is called.
    @Test("its commit is durable whatever the server's default", arguments: ["off", "local", "on", "remote_apply"])
    func durable(setting: String) async throws {
        let fixture = try await fixture()
        try await fixture.script(Self.dropBatch)
        try await fixture.setDefault("synchronous_commit", setting)
        try await fixture.recordCommits(to: ["message_ids"])
        #expect(try await fixture.store().commit([.make(1)]) == [.stored])
        let expected = setting == "remote_apply" ? setting : "on"
        #expect(try await fixture.text("SELECT string_agg(setting, ' ') FROM public.seen") == expected)
    }

    @Test("it waits for handlers of other workers, and after two of them the short way is not tried")
    func handlersElsewhere() async throws {
        let fixture = try await fixture()
        let store = fixture.store()
        #expect(try await store.commit([.make(1)]) == [.stored])
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('all');
            INSERT INTO upstream.subscriptions VALUES ('all', '*')
            """
        )
        for number in 2...3 as ClosedRange<UInt64> { #expect(try await store.commit([.make(number)]) == [.stored]) }
        try await fixture.script(Self.breakOne)
        #expect(try await store.commit([.make(4)]) == [.stored])
        #expect(try await fixture.count("deliveries") == 3)
        await #expect(throws: StoreError.self) { try await fixture.store().commit([.make(5)]) }
    }

    /// G6: whoever subscribed before the message was stored gets it.
    @Test(
        "a handler that subscribes while the insert waits gets the message, whatever the server's default isolation",
        arguments: ["read committed", "repeatable read", "serializable"],
        [true, false]
    )
    func subscribedMeanwhile(isolation: String, isAlone: Bool) async throws {
        let fixture = try await fixture()
        try await fixture.setDefault("default_transaction_isolation", isolation)
        let others = isAlone ? [] : [IncomingMessage.make(2)]
        let found = try await fixture.deliveriesOfHandlerMeanwhile(fixture.store(), beside: others)
        #expect(found == Int64(others.count + 1))
    }

    @Test("where this worker has handlers the short way is not tried")
    func handlersHere() async throws {
        let fixture = try await fixture()
        try await fixture.script(Self.breakOne)
        let offer = LeaseOffer(handlers: [], local: ["all"], owner: "w", token: 0, duration: .seconds(60))
        #expect(try await fixture.store().commit([.make(1)], leasing: offer, isRetry: false) == [.stored])
    }

    @Test("one of a day without a partition is stored, one that PostgreSQL refuses leaves nothing")
    func declined() async throws {
        let fixture = try await fixture()
        let store = fixture.store()
        #expect(try await store.commit([.make(1, receivedAt: 1_000_000_000_000_000)]) == [.stored])
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(2, data: "{")]) }
        #expect(error?.kind == .refused && error?.sqlState == "22P02")
        #expect(try await fixture.count("messages") == 3)
        #expect(try await fixture.count("message_ids") == 3)
    }
}

extension StoreFixture {
    /// How many deliveries there are of a message whose insert waits while a handler subscribes, and of others in its batch.
    func deliveriesOfHandlerMeanwhile(
        _ store: MessageStore,
        beside others: [IncomingMessage] = []
    ) async throws -> Int64? {
        let message = IncomingMessage.make(1)
        let other = try await PostgresConnection.open(settings)
        try await other.run { connection throws(PostgresError) in
            try connection.script(
                "BEGIN; INSERT INTO upstream.message_ids VALUES ('\(message.messageKey)', '\(message.fingerprint)', now())"
            )
        }
        async let outcomes = store.commit([message] + others)
        try await waitUntil(
            "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        try await script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('all');
            INSERT INTO upstream.subscriptions VALUES ('all', '*')
            """
        )
        try await other.run { connection throws(PostgresError) in try connection.script("ROLLBACK") }
        #expect(try await outcomes.allSatisfy { $0 == .stored })
        return try await count("deliveries")
    }
}
