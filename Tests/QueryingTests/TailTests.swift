import Postgres
import QuerySupport
import Querying
import Testing
import UpstreamKit
import Vocabulary

@Suite("following: nothing is missed and nothing is shown twice", .timeLimit(.minutes(2)))
struct TailTests {
    static let second: Int64 = 1_000_000

    static func place(_ time: Int64, _ key: UInt64) -> MessageCursor {
        MessageCursor(receivedAt: time, messageKey: MessageKey(Digest128(high: 0, low: key)))
    }

    /// Where a poll that succeeds begins.
    private func floor(_ window: inout TailWindow, _ now: Int64) -> Int64 {
        defer { window.succeeded() }
        return window.poll(now: now)
    }

    @Test("polls look back a little each time, and by the whole overlap at intervals")
    func floors() {
        var window = TailWindow(now: 1_000 * Self.second, overlap: 60 * Self.second)
        #expect(window.start == 940 * Self.second)
        #expect(floor(&window, 1_001 * Self.second) == 998 * Self.second)
        #expect(floor(&window, 1_002 * Self.second) == 999 * Self.second)
        #expect(floor(&window, 1_005 * Self.second) == 940 * Self.second)
        #expect(floor(&window, 1_006 * Self.second) == 1_003 * Self.second)
        #expect(floor(&window, 1_010 * Self.second) == 945 * Self.second)
    }

    @Test("whatever a message's delay within the overlap, the first long poll after its commit begins before it")
    func coverage() {
        let overlap = 60 * Self.second
        // A message is received at t and commits after a delay; polls come at odd times.
        for delay in stride(from: Int64(0), through: overlap, by: 7_000_000) {
            for offset in stride(from: Int64(0), to: 12_000_000, by: 1_300_000) {
                var window = TailWindow(now: 0, overlap: overlap)
                let received = 100 * Self.second + offset
                let commit = received + delay
                var now: Int64 = 0
                var shown = 0
                var seenAfter: Int64?
                while now < 300 * Self.second {
                    now += 1_100_000
                    let floor = window.poll(now: now)
                    if now >= commit, received >= floor, window.isNew(Self.place(received, 1)) {
                        shown += 1
                        seenAfter = now - commit
                    }
                    window.succeeded()
                }
                #expect(shown == 1, "delay \(delay), offset \(offset)")
                #expect((seenAfter ?? .max) <= 7 * Self.second)
            }
        }
    }

    @Test("a clock that is set back opens no gap")
    func clockSetBack() {
        var window = TailWindow(now: 100 * Self.second, overlap: 10 * Self.second)
        _ = floor(&window, 101 * Self.second)
        #expect(floor(&window, 50 * Self.second) <= 99 * Self.second)
        #expect(floor(&window, 51 * Self.second) <= 48 * Self.second)
    }

    @Test("memory is bounded: with more keys than it may hold the overlap shrinks, and it says so")
    func bounded() {
        var window = TailWindow(now: 0, overlap: 1_000 * Self.second, seenLimit: 100)
        for number in 1...1_000 {
            let isNew = window.isNew(Self.place(Int64(number), UInt64(number)))
            #expect(isNew)
            #expect(window.seenCount <= 100)
        }
        #expect(window.isShortened)
        // What was forgotten is not shown again either.
        let again = [window.isNew(Self.place(1, 1)), window.isNew(Self.place(1_000, 1_000))]
        #expect(again == [false, false])
    }

    @Test("keys are forgotten once no poll looks at them again")
    func forgets() {
        var window = TailWindow(now: 0, overlap: 10 * Self.second)
        var now: Int64 = 0
        for number in 1...200 {
            now += Self.second
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
        let now = try #require(
            try await fixture.admin.run { connection throws(PostgresError) in
                try connection.query("SELECT clock_timestamp()").timestamp(0, 0)
            }
        )
        let seed = Seed(id: id, category: category, at: now - QueryFixture.start - Int64(secondsAgo) * Self.second)
        try await fixture.add([seed], by: connection)
    }

    @Test("a message that commits late, behind others that were shown, is shown then; none twice")
    func lateCommit() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
        try await add("before", secondsAgo: 5, fixture)
        // Every poll is a long one: how often they come is the business of the tests above.
        var filter = MessageFilter()
        filter.categories = ["com.example.orders"]
        var tail = try await MessageTail(filter, overlap: 60 * Self.second, longInterval: 0, fixture.reader)
        func poll() async throws -> [String] {
            var ids: [String] = []
            _ = try await tail.poll(fixture.reader) { page, row in
                ids.append(page.message(row)?.message.messageID ?? "?")
            }
            return ids
        }
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

    @Test("a follower that was stopped for longer than the overlap goes on from its last look")
    func stopped() {
        let (second, overlap) = (Self.second, 60 * Self.second)
        for pause in [30, 61, 600, 36_000].map({ Int64($0) * second }) {
            for received in stride(from: 95 * second, through: 100 * second + pause, by: Int(pause / 37 + 1)) {
                for delay in [0, 59 * second] {
                    var window = TailWindow(now: 90 * second, overlap: overlap)
                    var shown = 0
                    for now in [91, 95, 100].map({ $0 * second }) + [100 * second + pause, 107 * second + pause]
                        + [200 * second + pause]
                    {
                        let floor = window.poll(now: now)
                        if now >= received + delay, received >= floor, window.isNew(Self.place(received, 1)) {
                            shown += 1
                        }
                        window.succeeded()
                    }
                    #expect(shown == 1, "pause \(pause), received \(received), delay \(delay)")
                }
            }
        }
    }

    @Test("a poll that fails does not count: the next one begins where it began, and shows nothing twice")
    func failedPoll() {
        var window = TailWindow(now: 1_000 * Self.second, overlap: 60 * Self.second)
        let first = window.poll(now: 1_010 * Self.second)
        let isNew = window.isNew(Self.place(950 * Self.second, 1))
        let again = window.poll(now: 5_000 * Self.second)
        #expect(first == 940 * Self.second && again == first)
        let isShownAgain = window.isNew(Self.place(950 * Self.second, 1))
        #expect(isNew && !isShownAgain)
    }

    @Test("catching up with more than memory holds loses nothing and says nothing of late commits")
    func catchesUp() {
        var window = TailWindow(now: 0, overlap: 10 * Self.second, seenLimit: 100)
        _ = window.poll(now: 10_000 * Self.second)
        var shown = 0
        for number in 1...9_000 where window.isNew(Self.place(Int64(number) * Self.second, UInt64(number))) {
            shown += 1
        }
        window.succeeded()
        #expect(shown == 9_000 && !window.isShortened && window.unproven == nil)
    }

    @Test("what came while the follower was stopped is shown, and what retention dropped meanwhile is named")
    func stoppedInDatabase() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script("SELECT upstream.ensure_partitions(current_date - 4, current_date + 2)")
        let overlap = 10 * Self.second
        var tail = try await MessageTail(MessageFilter(), overlap: overlap, fixture.reader)
        #expect(try await tail.poll(fixture.reader) { _, _ in } == nil)
        // The follower's last look, three days ago by the database's clock.
        let now = try await MessageTail.now(fixture.reader)
        let last = now - 3 * 86_400 * Self.second
        tail.window = TailWindow(now: last, overlap: overlap)
        let seconds = [250_000, 200_000, 100_000, 3_600, 100, 2]
        for ago in seconds { try await add("m\(ago)", secondsAgo: ago, fixture) }
        var before = tail
        var ids: [String] = []
        let gap = try await tail.poll(fixture.reader) { ids.append($0.message($1)?.message.messageID ?? "?") }
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
        let today = now / (86_400 * Self.second) * 86_400 * Self.second
        #expect(dropped == .dropped((last - overlap)..<(today - 86_400 * Self.second)))
    }
}
