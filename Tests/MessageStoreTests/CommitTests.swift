import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("commits of batches")
struct CommitTests {
    @Test("a batch of new messages is stored")
    func aBatchOfNewMessagesIsStored() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let batch = (1...500).map { IncomingMessage.make($0) }
        #expect(try await store.commit(batch) == Array(repeating: .stored, count: 500))
        #expect(try await fixture.count("messages") == 500)
        #expect(try await fixture.count("message_ids") == 500)
        #expect(try await fixture.count("deliveries") == 0)
        let row = try await fixture.text(
            """
            SELECT concat_ws('|', sender_id, message_id, registration_token, category, data, data_raw IS NULL,
                extra IS NULL, message_type IS NULL, stanza_from IS NULL, device_key)
            FROM upstream.messages WHERE message_id = 'm-7'
            """
        )
        #expect(
            row
                == #"1234567890|m-7|token-SECRET|com.example.orders|{"a":1}|t|t|t|t|00000000-0000-0007-0000-000000000007"#
        )
        #expect(
            try await fixture.integer(
                "SELECT (extract(epoch FROM received_at) * 1000000)::int8 FROM upstream.messages WHERE message_id = 'm-7'"
            ) == batch[6].receivedAt
        )
    }

    @Test("an empty batch asks nothing of the database")
    func anEmptyBatchAsksNothingOfTheDatabase() async throws {
        let store = MessageStore(try PostgresSettings(url: "host=/nowhere"), senders: [])
        #expect(try await store.commit([]) == [])
    }

    /// A reply that was lost makes the pipeline commit the same batch again; the answer has to be the lost one.
    @Test("the same batch again gives the same outcomes and stores nothing twice")
    func theSameBatchAgainGivesTheSameOutcomes() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let first = IncomingMessage.make(1)
        let batch = [
            first, first.copy(), first.copy(fingerprint: 2), .make(2), .make(3, quarantine: .duplicateKey),
            first.copy(receivedAt: first.receivedAt + 5, fingerprint: 2),
        ]
        let expected: [StoreOutcome] = [.stored, .duplicate, .conflict, .stored, .quarantined, .conflict]
        #expect(try await store.commit(batch) == expected)
        #expect(try await store.commit(batch, isRetry: true) == expected)
        #expect(try await fixture.count("messages") == 2)
        #expect(try await fixture.integer("SELECT times_seen FROM upstream.conflicts") == 2)
        #expect(try await fixture.integer("SELECT times_seen FROM upstream.quarantine") == 1)
    }

    @Test("a copy that came to another worker in the same microsecond is a duplicate there")
    func sameMicrosecond() async throws {
        let fixture = try await StoreFixture()
        let batch = [IncomingMessage.make(1), .make(2)]
        #expect(try await fixture.store().commit(batch) == [.stored, .stored])
        let other = fixture.store()
        #expect(try await other.commit([batch[0]]) == [.duplicate])
        #expect(try await other.commit(batch) == [.duplicate, .duplicate])
        // Its own commit may have had no reply.
        #expect(try await other.commit(batch, isRetry: true) == [.stored, .stored])
    }

    @Test("a later copy is a duplicate, or a conflict where its content differs")
    func laterCopiesAreDuplicatesOrConflicts() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let known = IncomingMessage.make(1)
        let quarantined = IncomingMessage.make(9, quarantine: .payloadNotJSON)
        _ = try await store.commit([known, quarantined])
        let mixed = [
            known.copy(), .make(2), known.copy(receivedAt: known.receivedAt + 2, fingerprint: 5),
            quarantined.copy(),
        ]
        #expect(try await fixture.store().commit(mixed) == [.duplicate, .stored, .conflict, .quarantined])
        #expect(try await fixture.count("messages") == 2)
        #expect(try await fixture.count("conflicts") == 1)
        #expect(try await fixture.integer("SELECT times_seen FROM upstream.quarantine") == 2)
        #expect(
            try await fixture.integer(
                "SELECT (digest = sha256(decode(repeat('00', 8), 'hex') || stanza) AND reason = 'payload_not_json')::int FROM upstream.quarantine"
            )
                == 1
        )
    }

    /// Two writers, the later copy's first: each copy counts, whichever commit comes first.
    @Test("copies that several writers store at once are all counted")
    func copiesOfSeveralWritersAreAllCounted() async throws {
        let fixture = try await StoreFixture()
        let known = IncomingMessage.make(1)
        let quarantined = IncomingMessage.make(9, quarantine: .payloadNotJSON)
        func copies(_ microseconds: Int64) -> [IncomingMessage] {
            [
                known.copy(receivedAt: known.receivedAt + microseconds, fingerprint: 5),
                quarantined.copy(receivedAt: quarantined.receivedAt + microseconds),
            ]
        }
        _ = try await fixture.store().commit([known])
        for microseconds in [30, 10, 20] as [Int64] {
            _ = try await fixture.store().commit(copies(microseconds))
        }
        for table in ["conflicts", "quarantine"] {
            #expect(try await fixture.integer("SELECT times_seen FROM upstream.\(table)") == 3, "\(table)")
            #expect(
                try await fixture.integer(
                    "SELECT (extract(epoch FROM last_seen_at) * 1000000)::int8 FROM upstream.\(table)"
                ) == (table == "conflicts" ? known : quarantined).receivedAt + 30
            )
        }
    }

    @Test("payloads of every form are stored in their columns")
    func oddPayloadsAreStoredWhereTheyBelong() async throws {
        let fixture = try await StoreFixture()
        let longID = String(repeating: "é", count: 2_048)
        let batch: [IncomingMessage] = [
            .make(1, data: nil), .make(2, data: "null"), .make(3, data: #"{"a":"\u0000"}"#, form: .raw),
            .make(4, data: #"{"b":1.10,  "b":1}"#), .make(5, id: longID),
        ]
        #expect(try await fixture.store().commit(batch) == Array(repeating: .stored, count: 5))
        func column(_ column: String, _ id: String) async throws -> String? {
            try await fixture.text("SELECT \(column)::text FROM upstream.messages WHERE message_id = '\(id)'")
        }
        #expect(try await column("data", "m-1") == nil)
        #expect(try await column("data", "m-2") == "null")
        #expect(try await column("data", "m-3") == nil)
        #expect(try await column("data_raw", "m-3") == #"{"a":"\u0000"}"#)
        #expect(try await column("data", "m-4") == #"{"b":1.10,  "b":1}"#)
        #expect(try await column("octet_length(message_id)", longID) == "4096")
    }

    @Test("each subscribed handler gets a delivery")
    func subscribedHandlersGetADeliveryEach() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('all'), ('orders'), ('other');
            INSERT INTO upstream.subscriptions VALUES
                ('all', '*'), ('all', 'com.example.orders'), ('orders', 'com.example.orders'), ('other', 'com.example.other')
            """
        )
        let store = fixture.store()
        let first = IncomingMessage.make(1)
        _ = try await store.commit([first, .make(2, category: "com.example.none"), .make(3, quarantine: .duplicateKey)])
        _ = try await store.commit([first.copy()])
        let rows = try await fixture.text(
            """
            SELECT string_agg(handler || ':' || message_id, ' ' ORDER BY handler, message_id)
            FROM upstream.deliveries JOIN upstream.messages USING (received_at, message_key)
            """
        )
        #expect(rows == "all:m-1 all:m-2 orders:m-1")
    }

    /// Two workers get the same redelivered messages at once, in opposite order.
    @Test("writers with the same keys neither deadlock nor store a message twice")
    func writersWithTheSameKeysNeitherDeadlockNorDouble() async throws {
        let fixture = try await StoreFixture()
        let messages = (1...400).map { IncomingMessage.make($0) }
        let outcomes = try await withThrowingTaskGroup(of: [StoreOutcome].self) { group in
            for writer in 0..<4 {
                let store = fixture.store()
                let copies = messages.map { $0.copy(receivedAt: $0.receivedAt + Int64(writer)) }
                let batch = writer % 2 == 0 ? copies : copies.reversed()
                group.addTask {
                    var all: [StoreOutcome] = []
                    for start in stride(from: 0, to: batch.count, by: 50) {
                        all += try await store.commit(Array(batch[start..<start + 50]))
                    }
                    return all
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }
        #expect(outcomes.count { $0 == .stored } == 400)
        #expect(outcomes.count { $0 == .duplicate } == 1_200)
        #expect(try await fixture.count("messages") == 400)
    }

    /// Both writers are held up at a key in the middle: with keys in batch order each would then have what the other wants.
    @Test("writers whose batches are in opposite order do not deadlock")
    func writersInOppositeOrderNeverWaitInACircle() async throws {
        let fixture = try await StoreFixture()
        let messages = (1...9).map { IncomingMessage.make($0) }.sorted { $0.messageKey < $1.messageKey }
        let blocker = try await PostgresConnection.open(fixture.settings)
        let middle = messages[4].messageKey.description
        try await blocker.run { connection throws(PostgresError) in
            try connection.script("BEGIN; INSERT INTO upstream.message_ids VALUES ('\(middle)', '\(middle)', now())")
        }
        let (one, other) = (fixture.store(), fixture.store())
        async let first = one.commit(messages)
        async let second = other.commit(messages.reversed().map { $0.copy() })
        try await fixture.waitUntil(
            """
            SELECT count(*) = 2 FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'
            """
        )
        try await blocker.run { connection throws(PostgresError) in try connection.script("ROLLBACK") }
        let outcomes = try await first + second
        #expect(outcomes.count { $0 == .stored } == 9)
        #expect(outcomes.count { $0 == .duplicate } == 9)
    }

    @Test("a missing partition is created, and no message is quarantined for it")
    func aMissingDayIsMadeAndBlamedOnNobody() async throws {
        let fixture = try await StoreFixture()
        // One microsecond before and at midnight of a day far ahead, and a day long gone.
        let midnight = Int64(36_500) * 86_400_000_000
        let batch: [IncomingMessage] = [
            .make(1, receivedAt: midnight - 1), .make(2, receivedAt: midnight),
            .make(3, receivedAt: 1_000_000_000_000_000),
        ]
        #expect(try await fixture.store().commit(batch) == [.stored, .stored, .stored])
        let days = try await fixture.text(
            "SELECT string_agg(relname, ' ' ORDER BY received_at) FROM upstream.messages m JOIN pg_class c ON c.oid = m.tableoid"
        )
        #expect(
            days == "messages_20010909 messages_20691206 messages_20691207"
        )
    }

    @Test("copies on two sides of midnight are duplicates")
    func copiesAcrossMidnightAreDuplicates() async throws {
        let fixture = try await StoreFixture()
        let midnight = UTCDay.today().number * 86_400_000_000
        let message = IncomingMessage.make(1, receivedAt: midnight - 1)
        let store = fixture.store()
        #expect(try await store.commit([message]) == [.stored])
        #expect(try await store.commit([message.copy(receivedAt: midnight)]) == [.duplicate])
    }

    @Test("only the row that PostgreSQL refuses is quarantined")
    func onlyTheRefusedRowPays() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        // U+0000, which the codec keeps out of here.
        let bad = IncomingMessage.make(2, id: "bad\u{0}id")
        let error = await #expect(throws: StoreError.self) { try await store.commit([.make(1), bad, .make(3)]) }
        #expect(error?.kind == .refused)
        #expect(error?.sqlState == "22021")
        #expect(try await fixture.count("messages") == 0)
        var alone = bad
        alone.quarantine = .databaseRefused
        #expect(try await store.commit([alone]) == [.quarantined])
        #expect(
            try await fixture.text("SELECT reason FROM upstream.quarantine WHERE message_id IS NULL")
                == "database_refused"
        )
    }

    /// G1: what is acked must survive a crash of the server, and a failover where standbys are waited for, whatever the
    /// server's default is; one that promises more is kept.
    @Test(
        "Commits are durable whatever the server's default",
        arguments: ["off", "local", "remote_write", "on", "remote_apply"]
    )
    func commitsAreDurableWhateverTheServersDefault(setting: String) async throws {
        let expected = setting == "remote_apply" ? setting : "on"
        let fixture = try await StoreFixture()
        try await fixture.setDefault("synchronous_commit", setting)
        try await fixture.recordCommits(to: ["message_ids", "conflicts", "quarantine"])
        let first = IncomingMessage.make(1)
        let batch = [first, first.copy(fingerprint: 2), .make(3, quarantine: .duplicateKey)]
        #expect(try await fixture.store().commit(batch) == [.stored, .conflict, .quarantined])
        #expect(
            try await fixture.text("SELECT string_agg(place || ' ' || setting, ', ' ORDER BY place) FROM public.seen")
                == "conflicts \(expected), message_ids \(expected), quarantine \(expected)"
        )
    }

    @Test("a copy without its required fields goes to quarantine")
    func aCopyWithoutItsRequiredFieldsGoesToQuarantine() async throws {
        let fixture = try await StoreFixture()
        var message = IncomingMessage.make(1)
        message.registrationToken = nil
        #expect(try await fixture.store().commit([message, .make(2)]) == [.quarantined, .stored])
    }

    @Test(
        "a stanza that comes again with a delay, an id or other quotes of its server's is one row, with the first's bytes"
    )
    func sameStanzaAgain() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        func copy(_ number: Int, from: String?, payload: String, stanza: String) -> IncomingMessage {
            var message = IncomingMessage(kind: .malformed, bytes: [], stanza: ByteSpan(start: 0, count: 0))
            func add(_ text: String) -> ByteSpan {
                let start = message.bytes.count
                message.bytes += text.utf8
                return ByteSpan(start: start, count: message.bytes.count - start)
            }
            message.stanza = add(stanza)
            message.payload = add(payload)
            message.stanzaFrom = from.map(add)
            message.quarantine = .payloadNotJSON
            message.receivedAt = IncomingMessage.now() + Int64(number)
            return message
        }
        for number in 0..<6 {
            let again = copy(number, from: "a@b/\(number)", payload: "[]", stanza: "<message>\(number)</message>")
            #expect(try await store.commit([again]) == [.quarantined])
        }
        #expect(try await fixture.count("quarantine") == 1)
        #expect(
            try await fixture.text("SELECT times_seen || convert_from(stanza, 'UTF8') FROM upstream.quarantine")
                == "6<message>0</message>"
        )
        // Another sender, another payload: other stanzas.
        let others = [
            copy(7, from: "c@b/0", payload: "[]", stanza: "x"), copy(8, from: "a@b", payload: "[ ]", stanza: "x"),
            copy(9, from: nil, payload: "[]", stanza: "x"),
        ]
        _ = try await store.commit(others)
        #expect(try await fixture.count("quarantine") == 4)
    }

    @Test("messages whose ack would be too large are one row for each id, whatever else differs")
    func oversizedOnce() async throws {
        let fixture = try await StoreFixture()
        var first = IncomingMessage.make(1, quarantine: .fieldTooLong)
        first.answer = .tooLarge
        first.kind = .malformed
        var second = IncomingMessage.make(1, data: #"{"b":2}"#, quarantine: .fieldTooLong)
        second.answer = .tooLarge
        var third = IncomingMessage.make(2, quarantine: .fieldTooLong)
        third.answer = .tooLarge
        _ = try await fixture.store().commit([first, second, third])
        _ = try await fixture.store().commit([second.copy()])
        #expect(try await fixture.count("quarantine") == 2)
        #expect(try await fixture.integer("SELECT max(times_seen) FROM upstream.quarantine") == 3)
    }
}

extension StoreFixture {
    /// Has `public.seen` show under which `synchronous_commit` rows were committed: deferred triggers run at the commit itself.
    func recordCommits(to tables: [String]) async throws {
        let triggers = tables.map { table in
            """
            CREATE CONSTRAINT TRIGGER see AFTER INSERT ON upstream.\(table)
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.see()
            """
        }
        try await script(
            """
            CREATE TABLE public.seen (place text, setting text);
            CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO public.seen VALUES (TG_TABLE_NAME, current_setting('synchronous_commit'));
                RETURN NULL;
            END
            $$;
            \(triggers.joined(separator: ";\n"))
            """
        )
    }
}
