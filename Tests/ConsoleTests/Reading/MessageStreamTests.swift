import ConsoleSupport
import Logging
import NIOHTTP1
import Postgres
import QuerySupport
import Querying
import Testing
import Vocabulary

@testable import Console

@Suite("GET messages/stream", .timeLimit(.minutes(10)))
struct MessageStreamTests {
    /// Stores a message that was received some seconds ago.
    private static func add(
        _ id: String,
        secondsAgo: Int = 0,
        category: String = "com.example.orders",
        _ console: ConsoleHarness,
        by connection: PostgresConnection? = nil
    ) async throws {
        let received = try await console.database.admin.databaseTime() - .seconds(secondsAgo)
        let seed = Seed(id: id, category: category, at: (received - QueryFixture.start).microseconds)
        try await console.database.add([seed], by: connection)
    }

    private static func run(_ body: @escaping @Sendable (ConsoleHarness) async throws -> Void) async throws {
        try await ConsoleHarness.run { console in
            try await console.database.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
            try await body(console)
        }
    }

    @Test("a stream begins with the latest messages and goes on with what commits, each once")
    func follows() async throws {
        try await Self.run { console in
            for number in 1...3 { try await Self.add("old\(number)", secondsAgo: 10 - number, console) }
            let response = try await console.open("/api/v1/messages/stream?limit=2&category=com.example.orders")
            #expect(response.headers.first(name: "Content-Type") == "text/event-stream")
            var events = EventReader(response)
            #expect(try await events.messages(2) == ["old2", "old3"])
            _ = try await events.next("position")
            #expect(events.lastID != nil)
            try await Self.add("new1", console)
            try await Self.add("other", category: "com.example.other", console)
            try await Self.add("new2", console)
            #expect(try await events.messages(2) == ["new1", "new2"])
        }
    }

    @Test("a message that commits late is shown when it does, and nothing twice")
    func lateCommit() async throws {
        try await Self.run { console in
            try await Self.add("first", secondsAgo: 5, console)
            var events = EventReader(try await console.open("/api/v1/messages/stream?limit=0"))
            _ = try await events.next("position")
            let slow = try await PostgresConnection.open(console.database.settings)
            try await slow.run { connection throws(PostgresError) in try connection.script("BEGIN") }
            try await Self.add("late", secondsAgo: 20, console, by: slow)
            try await Self.add("quick", console)
            #expect(try await events.messages(1) == ["quick"])
            try await slow.run { connection throws(PostgresError) in try connection.script("COMMIT") }
            #expect(try await events.messages(1) == ["late"])
            await slow.close()
        }
    }

    @Test("a stream that broke goes on where it was: with what committed meanwhile, late ones included, and no more")
    func resumes() async throws {
        try await Self.run { console in
            let slow = try await PostgresConnection.open(console.database.settings)
            var events: EventReader? = EventReader(try await console.open("/api/v1/messages/stream?limit=0"))
            _ = try await events?.next("position")
            try await Self.add("seen", console)
            #expect(try await events?.messages(1) == ["seen"])
            try await slow.run { connection throws(PostgresError) in try connection.script("BEGIN") }
            try await Self.add("late", secondsAgo: 20, console, by: slow)
            // Everything up to this position was shown; the transaction that is open then is behind it.
            _ = try await events?.next("position")
            let last = try #require(events?.lastID)
            events = nil
            try await slow.run { connection throws(PostgresError) in try connection.script("COMMIT") }
            for number in 1...3 { try await Self.add("missed\(number)", console) }

            let response = try await console.open("/api/v1/messages/stream", headers: ["Last-Event-ID": last])
            var again = EventReader(response)
            let missed = ["late", "missed1", "missed2", "missed3"]
            #expect(try await again.messages(4) == missed)
            try await Self.add("after", console)
            #expect(try await again.messages(1) == ["after"])
            var byAddress = EventReader(try await console.open("/api/v1/messages/stream?after=\(last)"))
            #expect(try await byAddress.messages(5) == missed + ["after"])
            await slow.close()
        }
    }

    @Test("a stream whose position is in the future, after the database's clock was set back, says so and begins anew")
    func positionInTheFuture() async throws {
        try await Self.run { console in
            let future = try await console.database.admin.databaseTime() + .seconds(3_600)
            let response = try await console.open("/api/v1/messages/stream?after=\(future.microseconds)-1&limit=0")
            var events = EventReader(response)
            #expect(try await events.next("gap")?.text("reason")?.contains("set back") == true)
            _ = try await events.next("position")
            try await Self.add("after", console)
            #expect(try await events.messages(1) == ["after"])
        }
    }

    @Test(
        "a position that no stream has given is refused",
        arguments: ["x", "1-2-3", "-1-2", "99999999999999999999-1", "1-"]
    )
    func badPosition(_ text: String) async throws {
        try await ConsoleHarness.run { console in
            let reply = try await console.get("/api/v1/messages/stream?after=\(text)")
            #expect(reply.status == 400)
            #expect(try await console.get("/api/v1/messages/stream", headers: ["Last-Event-ID": text]).status == 400)
        }
    }

    @Test("streams end in order when the console stops, and are abandoned by clients without harm")
    func stops() async throws {
        let (replies, reply) = AsyncStream<EventReader>.makeStream()
        try await Self.run { console in
            for _ in 1...5 { _ = try await console.open("/api/v1/messages/stream") }
            var events = EventReader(try await console.open("/api/v1/messages/stream?limit=0"))
            _ = try await events.next("position")
            nonisolated(unsafe) let open = events
            reply.yield(open)
        }
        for await open in replies {
            nonisolated(unsafe) var events = open
            // The body ends as a complete one: an aborted one would throw.
            while let event = try await events.next() { #expect(event.name != "message") }
            break
        }
    }

    @Test("streams without 'where' share one feed; each filter with it has one of its own, up to a bound")
    func sharing() async throws {
        let database = try await QueryFixture()
        let services = ConsoleServices(
            reading: database.settings,
            sessions: 1,
            writing: database.settings,
            settings: ConsoleSettings(version: "0"),
            logger: .init(label: "test")
        )
        let feeds = MessageFeeds(services.reader, showsPayloads: true)
        var orders = MessageFilter()
        orders.categories = ["com.example.orders"]
        let first = try feeds.subscribe(MessageFilter())
        let second = try feeds.subscribe(orders)
        #expect(first.feed === second.feed)
        var held: [MessageFeed.Subscription] = []
        for number in 1...MessageFeeds.queryLimit {
            orders.clauses = [try WhereClause(parsing: "data.n=\(number)")]
            held.append(try feeds.subscribe(orders).place)
        }
        orders.clauses = [try WhereClause(parsing: "data.n=0")]
        #expect(throws: Problem.self) { try feeds.subscribe(orders) }
        held.removeLast()
        #expect(throws: Never.self) { held.append(try feeds.subscribe(orders).place) }
        #expect(held.count == MessageFeeds.queryLimit)
    }

    @Test("whoever is too slow for the ring is told so, and memory stays bounded")
    func behind() async throws {
        let database = try await QueryFixture()
        try await database.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        let feed = MessageFeed(
            MessageFilter(),
            reader: ConsoleReader(ReadPool(database.settings, size: 1)),
            showsPayloads: true
        )
        let place = feed.subscribe {}
        try await feed.start()
        let big = "\"" + String(repeating: "x", count: 250_000) + "\""
        let at = (try await database.admin.databaseTime() - QueryFixture.start).microseconds
        try await database.add((1...40).map { Seed(id: "m\($0)", data: big, at: at + Int64($0)) })
        let driver = Task { try await feed.drive() }
        var signals = place.signals.makeAsyncIterator()
        while feed.end < 13 { await signals.next() }
        driver.cancel()
        guard case .behind = feed.look(from: place.first) else {
            Issue.record("10 MB of events were kept for a stream that does not read")
            return
        }
        guard case .batch(_, let next) = feed.look(from: feed.end - 1) else {
            Issue.record("the latest batch is not kept")
            return
        }
        #expect(next == feed.end)
        // An event ends with an empty line.
        #expect(MessageStream.behind.hasPrefix("event: behind\ndata: {") && MessageStream.behind.hasSuffix("}\n\n"))
    }
}
