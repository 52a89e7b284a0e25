import Digests
import Ingest
import MessageStore
import Testing
import Vocabulary

@Suite("batches of the receive path, new and known, of one origin and of several")
struct NewBatchTests {
    private func message(_ number: UInt64, sender: UInt16, from: String?, data: String = "1") -> IncomingMessage {
        var message = IncomingMessage.make(number, data: data)
        message.sender = sender
        if let from {
            message.stanzaFrom = ByteSpan(start: message.bytes.count, count: from.utf8.count)
            message.bytes += from.utf8
        }
        return message
    }

    @Test("of a batch with known messages the new ones alone are stored, and wait for their handlers")
    func someKnown() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('all'), ('orders');
            INSERT INTO upstream.subscriptions VALUES ('all', '*'), ('orders', 'com.example.orders')
            """
        )
        let known = [IncomingMessage.make(1), .make(3)]
        #expect(try await fixture.store().commit(known) == [.stored, .stored])
        // They have been handled: a delivery of them now would be a second one.
        try await fixture.script("DELETE FROM upstream.deliveries")
        let again = [known[0].copy(), .make(2), known[1].copy(), .make(4, category: "com.example.other")]
        #expect(try await fixture.store().commit(again) == [.duplicate, .stored, .duplicate, .stored])
        #expect(
            try await fixture.text("SELECT string_agg(message_id, ' ' ORDER BY message_id) FROM upstream.messages")
                == "m-1 m-2 m-3 m-4"
        )
        let waiting = try await fixture.text(
            """
            SELECT string_agg(handler || ':' || coalesce(message_id, 'nothing'), ' ' ORDER BY handler, message_id)
            FROM upstream.deliveries LEFT JOIN upstream.messages USING (received_at, message_key)
            """
        )
        #expect(waiting == "all:m-2 all:m-4 orders:m-2")
    }

    @Test(
        "each message keeps its own sender and its own address, whatever else is in its batch",
        arguments: [
            [(0, nil), (0, nil), (0, nil)], [(1, "a@x"), (1, "a@x"), (1, "a@x")], [(0, nil), (1, nil), (0, nil)],
            [(0, "a@x"), (1, "a@x"), (1, "a@x")], [(1, "a@x"), (1, "b@x"), (1, nil)],
            [(0, nil), (0, "a@x"), (1, "b@x")], [(1, "a@x"), (1, "b@x"), (1, "a@x")],
            [(1, "a@x"), (1, "a@x.y"), (1, "a@x")],
        ] as [[(UInt16, String?)]],
        [false, true]
    )
    func origins(origins: [(UInt16, String?)], isFirstKnown: Bool) async throws {
        let fixture = try await StoreFixture()
        let batch = origins.enumerated().map { message(UInt64($0 + 1), sender: $1.0, from: $1.1) }
        if isFirstKnown { _ = try await fixture.store().commit([batch[0].copy()]) }
        let outcomes = try await fixture.store().commit(batch)
        #expect(outcomes == [isFirstKnown ? .duplicate : .stored, .stored, .stored])
        let expected = origins.enumerated().map { index, origin in
            "m-\(index + 1) \(StoreFixture.senders[Int(origin.0)]) \(origin.1 ?? "-")"
        }
        #expect(
            try await fixture.text(
                """
                SELECT string_agg(concat_ws(' ', message_id, sender_id, coalesce(stanza_from, '-')), ', ' ORDER BY message_id)
                FROM upstream.messages
                """
            ) == expected.joined(separator: ", ")
        )
    }

    /// A ledger row that stayed behind would make a duplicate of a message that is stored nowhere.
    @Test(
        "a batch with a row that is refused leaves nothing behind, not even in the ledger",
        arguments: [false, true],
        [UInt16(0), 1]
    )
    func refused(isFirstKnown: Bool, otherSender: UInt16) async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('all');
            INSERT INTO upstream.subscriptions VALUES ('all', '*')
            """
        )
        let store = fixture.store()
        let first = message(1, sender: 0, from: nil)
        if isFirstKnown { _ = try await store.commit([first]) }
        let others = [isFirstKnown ? first.copy() : first, message(3, sender: otherSender, from: nil)]
        // The codec lets no such text through as JSON.
        let bad = message(2, sender: 0, from: nil, data: "{")
        let error = await #expect(throws: StoreError.self) { try await store.commit([others[0], bad, others[1]]) }
        #expect(error?.kind == .refused && error?.sqlState == "22P02")
        let before: Int64 = isFirstKnown ? 1 : 0
        for table in ["message_ids", "messages", "deliveries"] {
            #expect(try await fixture.count(table) == before, "\(table)")
        }
        #expect(try await store.commit(others) == [isFirstKnown ? .duplicate : .stored, .stored])
        #expect(try await fixture.count("messages") == 2)
    }

    /// What a plain insert did before it met a known id is counted, too.
    @Test(
        "after a batch with known ids the next one costs the ledger no insert in vain, and a clean one is inserted plainly again"
    )
    func knownAgain() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let batches = (0..<4 as Range<UInt64>).map { batch in (1...10).map { IncomingMessage.make(batch * 100 + $0) } }
        let all: [StoreOutcome] = Array(repeating: .stored, count: 10)
        let known = IncomingMessage.make(99)
        // The last in the order of keys, in which the ledger is filled.
        var first = IncomingMessage.make(98)
        first.messageKey = Digest128(high: .max, low: .max)
        let copy = first.copy()
        #expect(try await store.commit([known, first]) == [.stored, .stored])
        #expect(try await store.commit(batches[0] + [copy]) == all + [.duplicate])
        #expect(try await store.commit(batches[1] + [copy]) == all + [.duplicate])
        #expect(try await store.commit(batches[2]) == all)
        #expect(try await store.commit(batches[3] + [copy]) == all + [.duplicate])
        await store.close()
        // Twice eleven in vain: by the first batch with a known id, and by the one after a clean one.
        try await fixture.waitUntil(
            "SELECT n_tup_ins = 2 + 40 + 22 FROM pg_stat_user_tables WHERE relid = 'upstream.message_ids'::regclass"
        )
    }

    @Test("what ids are unique for comes from the worker, for each sender")
    func scopes() async throws {
        let fixture = try await StoreFixture()
        var own = message(1, sender: 0, from: nil)
        own.messageKey = Digest128(hashing: "\(StoreFixture.senders[0])\0m-1")
        own.isKeyedByDevice = false
        let batch = [own, message(2, sender: 1, from: nil)]
        #expect(try await fixture.store().commit(batch) == [.stored, .stored])
        #expect(try await fixture.store().commit([message(3, sender: 1, from: nil)]) == [.stored])
        #expect(
            try await fixture.text(
                "SELECT string_agg(sender_id || ' ' || id_scope, ', ' ORDER BY sender_id) FROM upstream.senders"
            )
                == "1234567890 sender, 987 device"
        )
    }
}
