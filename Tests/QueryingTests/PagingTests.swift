import Foundation
import Postgres
import QuerySupport
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("pages of messages", .timeLimit(.minutes(10)))
struct PagingTests {
    /// Messages over three days, several in each microsecond.
    static func seeds(_ count: Int, from first: Int = 0) -> [Seed] {
        (first..<(first + count)).map {
            Seed(
                id: "m\($0)",
                data: #"{"n":\#($0),"pad":"\#(String(repeating: "x", count: 100))"}"#,
                at: Int64($0 / 4) * 7_200_000_000
            )
        }
    }

    /// All ids, page by page; `meanwhile` is called between pages.
    static func walk(
        _ pager: MessagePager,
        _ fixture: QueryFixture,
        _ meanwhile: (Int) async throws -> Void = { _ in }
    ) async throws -> [String] {
        var pager = pager
        var ids: [String] = []
        for number in 0..<1_000 {
            let page = try await pager.next(fixture.reader)
            ids += try page.messages.map(\.message.messageID)
            if !page.isFull { return ids }
            try await meanwhile(number)
        }
        Issue.record("the pages have no end")
        return ids
    }

    @Test(
        "pages of any size hold every message once, in order",
        arguments: [1, 3, 4, 5, 7, 96, 1_000]
    )
    func complete(_ limit: Int) async throws {
        let fixture = try await QueryFixture(Self.seeds(96))
        let whole = try await fixture.page().messages.map(\.message.messageID)
        #expect(Set(whole).count == 96)
        #expect(try await Self.walk(MessagePager(MessageFilter(), .oldestFirst, limit: limit), fixture) == whole)
        #expect(
            try await Self.walk(MessagePager(MessageFilter(), .newestFirst, limit: limit), fixture)
                == Array(whole.reversed())
        )
    }

    @Test("pages going backwards do not change while newer messages arrive")
    func stableBackwards() async throws {
        let fixture = try await QueryFixture(Self.seeds(40))
        let before = try await Self.walk(MessagePager(MessageFilter(), .newestFirst, limit: 7), fixture)
        var next = 40
        let during = try await Self.walk(MessagePager(MessageFilter(), .newestFirst, limit: 7), fixture) { _ in
            try await fixture.add(Self.seeds(5, from: next))
            next += 5
        }
        #expect(during == before)
        #expect(next > 40)
    }

    @Test("pages going forwards include what arrives ahead of them, and repeat nothing")
    func stableForwards() async throws {
        let fixture = try await QueryFixture(Self.seeds(40))
        let during = try await Self.walk(MessagePager(MessageFilter(), .oldestFirst, limit: 7), fixture) { number in
            if number < 5 { try await fixture.add(Self.seeds(4, from: 40 + 4 * number)) }
        }
        #expect(during.count == 60 && Set(during).count == 60)
    }

    @Test("a byte limit ends pages early without losing messages")
    func byteLimit() async throws {
        let fixture = try await QueryFixture(Self.seeds(30))
        let whole = try await fixture.page().messages.map(\.message.messageID)
        for order in [PageOrder.oldestFirst, .newestFirst] {
            var pager = MessagePager(MessageFilter(), order, limit: 20)
            pager.byteLimit = 400
            var first = pager
            let page = try await first.next(fixture.reader)
            #expect((2...5).contains(page.count), "\(page.count)")
            let expected = order == .oldestFirst ? whole : whole.reversed()
            #expect(try await Self.walk(pager, fixture) == expected)
            #expect(page.isFull)
            // The last page knows that it is the last: another look could read everything there is.
            var all = MessagePager(MessageFilter(), order, limit: 31)
            all.byteLimit = 1 << 20
            #expect(try await all.next(fixture.reader).isFull == false)
            // A single row is given however large it is.
            pager.byteLimit = 1
            #expect(try await Self.walk(pager, fixture) == expected)
        }
    }

    @Test("a byte limit bounds what pages take of memory, however well devices' data is compressed in the tables")
    func compressed() async throws {
        let fixture = try await QueryFixture(Self.seeds(20))
        try await fixture.script(
            """
            SELECT upstream.ensure_partitions(current_date - 1, current_date + 1);
            UPDATE upstream.messages SET data = to_json(repeat('x', 100000));
            UPDATE upstream.messages SET data = NULL, data_raw = '"' || repeat('x', 100000) || '"', extra = '{}'
            WHERE message_id LIKE '%5';
            """
        )
        let stored = "SELECT (sum(pg_column_size(data)) < 100000)::text FROM upstream.messages"
        #expect(try await fixture.text(stored) == "true")
        var pager = MessagePager(MessageFilter(), .oldestFirst, limit: 20)
        pager.byteLimit = 450_000
        #expect(try await pager.next(fixture.reader).count == 5)
        // A follower's, too, which shows every one all the same.
        var tail = try await MessageTail(MessageFilter(), overlap: .seconds(60), longInterval: .zero, fixture.reader)
        try await fixture.script(
            """
            UPDATE upstream.messages
            SET received_at = now() - row.number * interval '1 ms', data = to_json(repeat('x', 1000000)), data_raw = NULL
            FROM (SELECT message_key AS key, row_number() OVER () AS number FROM upstream.messages) AS row WHERE message_key = key
            """
        )
        var (ids, most): (Set<String>, Int) = ([], 0)
        _ = try await tail.poll(fixture.reader) { page, row in
            most = max(most, page.count)
            let isNew = ids.insert(try page.message(row).message.messageID).inserted
            #expect(isNew)
        }
        #expect(ids.count == 20 && most == 5, "\(most)")
    }

    @Test("a cursor prunes the partitions before it")
    func pruning() async throws {
        let fixture = try await QueryFixture(Self.seeds(4))
        let cursor = MessageCursor(receivedAt: QueryFixture.start, messageKey: MessageKey(Digest128(high: 0, low: 0)))
        let sql = MessagePager(MessageFilter(), .oldestFirst, limit: 10, after: cursor).statement
        let plan = try await fixture.reader.run { connection throws(PostgresError) in
            let lines = try connection.run("EXPLAIN \(sql)").map { row throws(PostgresError) in
                try row.next(String.self)
            }
            return lines.joined(separator: "\n")
        }
        #expect(!plan.contains("messages_20260228") && plan.contains("messages_20260301"), "\(plan)")
    }
}
