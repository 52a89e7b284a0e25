import Postgres
import QuerySupport
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("following messages: none is missed and none is shown twice", .timeLimit(.minutes(10)))
struct TailTests {
    /// A moment in seconds after the epoch.
    private static func at(_ seconds: Double) -> Timestamp { Timestamp(microseconds: Int64(seconds * 1e6)) }

    private static func place(_ time: Timestamp, _ key: UInt64) -> MessageCursor {
        MessageCursor(receivedAt: time, messageKey: MessageKey(Digest128(high: 0, low: key)))
    }

    /// Where a successful poll begins.
    private func floor(_ window: inout TailWindow, _ now: Timestamp) -> Timestamp {
        defer { window.succeeded() }
        return window.poll(now: now)
    }

    @Test("polls look back a little each time, and by the whole overlap at intervals")
    func floors() {
        var window = TailWindow(now: Self.at(1_000), overlap: .seconds(60))
        #expect(window.start == Self.at(940))
        #expect(floor(&window, Self.at(1_001)) == Self.at(998))
        #expect(floor(&window, Self.at(1_002)) == Self.at(999))
        #expect(floor(&window, Self.at(1_005)) == Self.at(940))
        #expect(floor(&window, Self.at(1_006)) == Self.at(1_003))
        #expect(floor(&window, Self.at(1_010)) == Self.at(945))
    }

    @Test("the latest messages come oldest first, and some megabytes of them at a time")
    func latest() async throws {
        let body = "\"" + String(repeating: "x", count: 1 << 20) + "\""
        let fixture = try await QueryFixture((0..<10).map { Seed(id: "m\($0)", data: body, at: Int64($0)) })
        var ids: [String] = []
        var longest = 0
        let places = try await MessageTail.showLatest(MessageFilter(), limit: 8, fixture.reader) { page, row in
            ids.append(try page.message(row).message.messageID)
            longest = max(longest, page.count)
        }
        #expect(ids == (2..<10).map { "m\($0)" } && longest <= 5)
        #expect(places.count == 8)
    }

    @Test("whatever a message's delay within the overlap, the first long poll after its commit begins before it")
    func coverage() {
        let overlap = Duration.seconds(60)
        // A message is received and commits after a delay; polls come at odd times.
        for delay in stride(from: 0, through: 60, by: 7) {
            for offset in stride(from: 0, to: 12_000, by: 1_300) {
                var window = TailWindow(now: Self.at(0), overlap: overlap)
                let received = Self.at(100) + .milliseconds(offset)
                let commit = received + .seconds(delay)
                var now = Self.at(0)
                var shown = 0
                var seenAfter: Duration?
                while now < Self.at(300) {
                    now = now + .milliseconds(1_100)
                    let floor = window.poll(now: now)
                    if now >= commit, received >= floor, window.isNew(Self.place(received, 1)) {
                        shown += 1
                        seenAfter = now - commit
                    }
                    window.succeeded()
                }
                #expect(shown == 1, "delay \(delay), offset \(offset)")
                #expect(seenAfter.map { $0 <= .seconds(7) } == true)
            }
        }
    }

    @Test("a clock that is set back opens no gap")
    func clockSetBack() {
        var window = TailWindow(now: Self.at(100), overlap: .seconds(10))
        _ = floor(&window, Self.at(101))
        #expect(floor(&window, Self.at(50)) <= Self.at(99))
        #expect(floor(&window, Self.at(51)) <= Self.at(48))
    }

    @Test("what comes between a clock's step back and the next poll is shown, however long the follower has run")
    func stepBack() {
        var window = TailWindow(now: Self.at(5_000), overlap: .seconds(10))
        for second in 5_001...5_060 { _ = floor(&window, Self.at(Double(second))) }
        // Set back by an hour half a second ago.
        let received = Self.at(1_460.6)
        for (time, isShown) in [(1_461.0, true), (1_466, false)] {
            let floor = window.poll(now: Self.at(time))
            let isNew = window.isNew(Self.place(received, 1))
            window.succeeded()
            #expect(floor <= received && isNew == isShown)
        }
    }

    @Test("with more keys than the limit the overlap shrinks instead of memory growing, and the window says so")
    func bounded() {
        var window = TailWindow(now: Self.at(0), overlap: .seconds(1_000), seenLimit: 100)
        for number in 1...1_000 {
            let isNew = window.isNew(Self.place(Timestamp(microseconds: Int64(number)), UInt64(number)))
            #expect(isNew)
            #expect(window.seenCount <= 100)
        }
        #expect(window.isShortened)
        // What was forgotten is not shown again either.
        let places = [1, 1_000].map { Self.place(Timestamp(microseconds: $0), UInt64($0)) }
        let again = places.map { window.isNew($0) }
        #expect(again == [false, false])
    }

    @Test("keys are forgotten once no poll reads them again")
    func forgets() {
        var window = TailWindow(now: Self.at(0), overlap: .seconds(10))
        for number in 1...200 {
            let now = Self.at(Double(number))
            _ = window.poll(now: now)
            _ = window.isNew(Self.place(now, UInt64(number)))
            window.succeeded()
            #expect(window.seenCount <= 22)
        }
        #expect(!window.isShortened)
    }

    /// A message that was received some seconds ago.
    private func add(
        _ id: String,
        secondsAgo: Int,
        category: String = "com.example.orders",
        _ fixture: QueryFixture,
        by connection: PostgresConnection? = nil
    ) async throws {
        let received = try await fixture.admin.databaseTime() - .seconds(secondsAgo)
        let seed = Seed(id: id, category: category, at: (received - QueryFixture.start).microseconds)
        try await fixture.add([seed], by: connection)
    }

    @Test("a message that commits later than newer ones is shown when it commits, and none is shown twice")
    func lateCommit() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        try await add("before", secondsAgo: 5, fixture)
        // Every poll reads the whole overlap; the tests above check when it does.
        var filter = MessageFilter()
        filter.categories = ["com.example.orders"]
        var tail = try await MessageTail(filter, overlap: .seconds(60), longInterval: .zero, fixture.reader)
        func poll() async throws -> [String] {
            var ids: [String] = []
            _ = try await tail.poll(fixture.reader) { page, row in
                ids.append(try page.message(row).message.messageID)
            }
            return ids
        }
        #expect(try await poll() == [])
        // What a first page has shown, though it committed after the start.
        try await add("between", secondsAgo: 0, fixture)
        var first = MessagePager(filter, .newestFirst, limit: 1)
        for message in try await first.next(fixture.reader).messages { tail.pass(message.cursor) }
        #expect(try await poll() == [])

        let slow = try await PostgresConnection.open(fixture.settings)
        try await slow.run { connection throws(PostgresError) in try connection.script("BEGIN") }
        try await add("late", secondsAgo: 20, fixture, by: slow)
        try await add("quick", secondsAgo: 1, fixture)
        try await add("other", secondsAgo: 1, category: "com.example.other", fixture)
        #expect(try await poll() == ["quick"])
        #expect(try await poll() == [])
        try await slow.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        #expect(try await poll() == ["late"])
        #expect(try await poll() == [])
        try await add("too late", secondsAgo: 90, fixture)
        try await add("ahead", secondsAgo: -30, fixture)
        #expect(try await poll() == ["ahead"])
        #expect(try await poll() == [])
        await slow.close()
    }

    @Test("a follower that was stopped for longer than the overlap continues from its last poll")
    func stopped() {
        for pause in [30.0, 61, 600, 36_000] {
            for received in stride(from: 95, through: 100 + pause, by: pause / 37) {
                for delay in [0.0, 59] {
                    var window = TailWindow(now: Self.at(90), overlap: .seconds(60))
                    var shown = 0
                    for now in [91, 95, 100, 100 + pause, 107 + pause, 200 + pause] {
                        let floor = window.poll(now: Self.at(now))
                        let place = Self.place(Self.at(received), 1)
                        if now >= received + delay, place.receivedAt >= floor, window.isNew(place) { shown += 1 }
                        window.succeeded()
                    }
                    #expect(shown == 1, "pause \(pause), received \(received), delay \(delay)")
                }
            }
        }
    }

    @Test("after a failed poll the next begins where it began, and shows nothing twice")
    func failedPoll() {
        var window = TailWindow(now: Self.at(1_000), overlap: .seconds(60))
        let first = window.poll(now: Self.at(1_010))
        let isNew = window.isNew(Self.place(Self.at(950), 1))
        let again = window.poll(now: Self.at(5_000))
        #expect(first == Self.at(940) && again == first)
        let isShownAgain = window.isNew(Self.place(Self.at(950), 1))
        #expect(isNew && !isShownAgain)
    }

    @Test("catching up with more keys than the limit loses nothing and reports no gap")
    func catchesUp() {
        var window = TailWindow(now: Self.at(0), overlap: .seconds(10), seenLimit: 100)
        _ = window.poll(now: Self.at(10_000))
        var shown = 0
        for number in 1...9_000 where window.isNew(Self.place(Self.at(Double(number)), UInt64(number))) {
            shown += 1
        }
        window.succeeded()
        #expect(shown == 9_000 && !window.isShortened && window.unproven == nil)
    }

    @Test("a stopped follower shows what arrived meanwhile, and reports what retention dropped")
    func stoppedInDatabase() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script("SELECT upstream.ensure_partitions(current_date - 4, current_date + 2)")
        let overlap = Duration.seconds(10)
        var tail = try await MessageTail(MessageFilter(), overlap: overlap, fixture.reader)
        #expect(try await tail.poll(fixture.reader) { _, _ in } == nil)
        // The follower's last poll was three days ago by the database's clock.
        let now = try await fixture.reader.databaseTime()
        let last = now - .seconds(3 * 86_400)
        tail.window = TailWindow(now: last, overlap: overlap)
        let seconds = [250_000, 200_000, 100_000, 3_600, 100, 2]
        for ago in seconds { try await add("m\(ago)", secondsAgo: ago, fixture) }
        var before = tail
        var ids: [String] = []
        let gap = try await tail.poll(fixture.reader) { ids.append(try $0.message($1).message.messageID) }
        #expect(ids == seconds.map { "m\($0)" } && gap == nil)
        #expect(try await tail.poll(fixture.reader) { _, _ in Issue.record("shown twice") } == nil)

        try await fixture.script(
            """
            DO $$
            DECLARE
                name text;
            BEGIN
                FOR name IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = 'upstream.messages'::regclass LOOP
                    IF right(name, 8) < to_char((now() AT TIME ZONE 'UTC')::date - 1, 'YYYYMMDD') THEN
                        EXECUTE 'DROP TABLE ' || name;
                    END IF;
                END LOOP;
            END $$
            """
        )
        let dropped = try await before.poll(fixture.reader) { _, _ in }
        let today = Timestamp(microseconds: now.microseconds / 86_400_000_000 * 86_400_000_000)
        #expect(dropped == .dropped((last - overlap)..<(today - .seconds(86_400))))
    }
}
