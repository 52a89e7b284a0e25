import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("figures without counting")
struct StatisticsTests {
    @Test("rows, categories, rates and queues come from the catalog, the counters and the queue")
    func figures() async throws {
        let fixture = try await DeliveriesFixture()
        let store = fixture.store
        let before = try await StoreStatistics.take(store.admin)
        #expect(before.newest == nil && before.days.count == 9 && before.daysAhead == 7)
        for number in 0..<4 as Range<UInt64> {
            try await fixture.receive(number * 100 + 1...number * 100 + 75)
            try await fixture.receive(number * 100 + 76...number * 100 + 100, category: "com.example.chat")
        }
        // The counters are told by the writer's session when it is idle, within a second.
        try await store.waitUntil(
            "SELECT pg_stat_get_tuples_inserted('upstream.message_ids'::regclass) = 400"
        )
        try await store.script("ANALYZE upstream.messages")
        let after = try await StoreStatistics.take(store.admin)
        #expect(after.categories.map(\.name) == ["com.example.orders", "com.example.chat"])
        #expect(after.categories.map(\.rows) == [300, 100])
        #expect(after.table("messages")?.rows == 400)
        #expect(after.table("deliveries") != nil && after.databaseBytes > 0 && after.newest != nil)
        #expect(after.handlers.map(\.depth) == [400])
        let rates = try #require(StoreRates(from: before, to: after))
        let seconds = (after.takenAt - before.takenAt).inSeconds
        #expect(abs(rates.stored * seconds - 400) < 0.01)
        #expect(StoreRates(from: after, to: after) == nil)
        // A dropped partition or reset counters are no negative rate.
        #expect(StoreRates(from: after, to: before) == nil)
        var reset = before
        reset.takenAt = after.takenAt + .seconds(1)
        #expect(StoreRates(from: after, to: reset)?.stored == 0)
    }

    @Test("nothing scans the table of messages")
    func plans() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.store().commit((1...500).map { IncomingMessage.make($0) })
        try await fixture.script("ANALYZE")
        let scans = """
            SELECT sum(pg_stat_get_numscans(oid))::bigint FROM pg_class
            WHERE relkind = 'r' AND (relname LIKE 'messages\\_%' OR relname = 'message_ids')
            """
        // Sessions tell the counters what they did when they end: the one that stored, before the first look. Ours does now,
        // not up to a minute later.
        let isAlone = "SELECT count(*) = 1 FROM pg_stat_activity WHERE datname = current_database()"
        try await fixture.waitUntil(isAlone)
        try await fixture.script("SELECT pg_stat_force_next_flush()")
        let before = try await fixture.integer(scans)
        let other = try await PostgresConnection.open(fixture.settings)
        _ = try await StoreStatistics.take(other)
        await other.close()
        try await fixture.waitUntil(isAlone)
        #expect(try await fixture.integer(scans) == before)
    }
}
