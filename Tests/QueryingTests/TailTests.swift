import Postgres
import Querying
import Testing
import UpstreamKit

@Suite("following: nothing is missed and nothing is shown twice", .timeLimit(.minutes(2)))
struct TailTests {
    static let second: Int64 = 1_000_000

    static func place(_ time: Int64, _ key: UInt64) -> MessageCursor {
        MessageCursor(receivedAt: time, messageKey: MessageKey(Digest128(high: 0, low: key)))
    }

    private func floor(_ window: inout TailWindow, _ now: Int64) -> Int64 { window.poll(now: now) }

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
                    guard now >= commit, received >= floor, window.isNew(Self.place(received, 1)) else { continue }
                    shown += 1
                    seenAfter = now - commit
                }
                #expect(shown == 1, "delay \(delay), offset \(offset)")
                #expect((seenAfter ?? .max) <= 7 * Self.second)
            }
        }
    }

    @Test("a clock that is set back opens no gap")
    func clockSetBack() {
        var window = TailWindow(now: 100 * Self.second, overlap: 10 * Self.second)
        _ = window.poll(now: 101 * Self.second)
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
            try await tail.poll(fixture.reader) { page, row in
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
}
