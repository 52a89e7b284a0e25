import Postgres
import Testing
import Vocabulary

@testable import MessageStore

@Suite("samples and their history")
struct SampleTests {
    private static let (first, second) = (Digest128(high: 0, low: 1), Digest128(high: 0, low: 2))

    /// The minute that begins so many minutes before the running one.
    private func minute(_ ago: Int64, _ fixture: StoreFixture) async throws -> Int64 {
        try await fixture.admin.databaseTime().microseconds / Sample.minute - ago
    }

    private func sample(_ minute: Int64, _ handled: UInt64, _ failed: UInt64 = 0, bucket: Int = 5) -> Sample {
        var sample = Sample(minute: minute, kind: .handler, subject: "orders")
        (sample.handled, sample.failed, sample.waiting, sample.oldest) = (handled, failed, Int(handled), 1.5)
        var times = [UInt64](repeating: 0, count: 17)
        times[bucket] = handled + failed
        sample.times = times
        return sample
    }

    private func write(
        _ connection: PostgresConnection,
        _ samples: [Sample],
        of instance: Digest128 = first
    ) async throws {
        try await connection.run { connection throws(PostgresError) in
            try Samples.ensure(connection, around: UTCDay(try connection.databaseTime()))
            try Samples.write(connection, samples, of: instance)
        }
    }

    private func history(_ fixture: StoreFixture, _ range: HistoryRange = .hour) async throws -> History {
        try await History.read(fixture.admin, .handler("orders"), range)
    }

    @Test("samples of several processes add up, with the worker's role; what is written again counts once")
    func addsUp() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        let ago = try await minute(5, fixture)
        try await write(worker, [sample(ago, 90, 10, bucket: 5), sample(ago + 1, 60)])
        // After a commit of unknown outcome the same comes again, with the next minute.
        try await write(worker, [sample(ago, 90, 10, bucket: 5), sample(ago + 1, 60), sample(ago + 2, 30)])
        try await write(worker, [sample(ago, 20, bucket: 9)], of: Self.second)
        let points = try await history(fixture).points
        #expect(points.count == 60)
        let found = points.filter { $0.minutes > 0 }
        #expect(found.map(\.handled) == [110, 60, 30] && found.map(\.failed) == [10, 0, 0])
        #expect(found.map(\.waiting) == [90, 60, 30], "every process knows of all that waits")
        #expect(found[0].rate(found[0].handled) == 110.0 / 60 && found[0].failedShare == 10.0 / 120)
        #expect(found[0].time(below: 0.5) == 0.01 && found[0].time(below: 0.95) == 0.25)
        for sql in [
            "DELETE FROM upstream.samples", "UPDATE upstream.samples SET handled = 0", "TRUNCATE upstream.samples",
        ] {
            let error = await #expect(throws: PostgresError.self) {
                try await worker.run { connection throws(PostgresError) in try connection.script(sql) }
            }
            #expect(error?.failureClass == .permission)
        }
    }

    @Test("a minute without samples is a gap; a minute with zeros is none", arguments: HistoryRange.allCases)
    func gaps(range: HistoryRange) async throws {
        let fixture = try await StoreFixture()
        let now = try await minute(0, fixture)
        // A step that is over, and the one before it a gap.
        let step = Int64(range.step)
        let start = (now / step - 3) * step
        try await write(fixture.admin, [sample(start, 0), sample(start + 2 * step, 6)])
        let history = try await history(fixture, range)
        #expect((60...180).contains(history.points.count))
        let place = try #require(history.points.firstIndex { $0.minutes > 0 })
        let (zero, gap, six) = (history.points[place], history.points[place + 1], history.points[place + 2])
        #expect(zero.rate(zero.handled) == 0 && zero.time(below: 0.5) == nil && zero.failedShare == nil)
        #expect(gap.minutes == 0 && gap.handled == nil && gap.rate(gap.handled) == nil && gap.waiting == nil)
        #expect(six.rate(six.handled) == 0.1, "by the minutes that were measured, not by the step's length")
        #expect(zip(history.points, history.points.dropFirst()).allSatisfy { $1.at - $0.at == .seconds(60 * step) })
        let joined = HistoryPoint.joined(history.points, by: 7)
        #expect(joined.compactMap(\.handled).reduce(0, +) == 6 && joined.reduce(0) { $0 + $1.minutes } == 2)
    }

    @Test("the last hour of many handlers at once; those without samples are left out")
    func lastHour() async throws {
        let fixture = try await StoreFixture()
        let now = try await minute(0, fixture)
        try await write(fixture.admin, [sample(now - 1, 9, 1), sample(now - 30, 9, 1), sample(now - 90, 1_000)])
        let hours = try await History.lastHour(fixture.admin, handlers: ["orders", "billing"])
        #expect(hours.keys.sorted() == ["orders"] && hours["orders"]?.attempts == 20)
        #expect(hours["orders"]?.failedShare == 0.1 && hours["orders"]?.minutes == 2)
    }

    @Test("retention drops whole days with the worker's role, and only those that ended long enough ago")
    func retention() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        try await fixture.script(
            """
            INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
            VALUES ('30 days', '35 days', '90 days', '7 days');
            SELECT upstream.ensure_samples(current_date - 20, current_date);
            INSERT INTO upstream.samples (at, kind, subject, instance)
            SELECT now() - n * interval '1 day', 'store', '', gen_random_uuid() FROM generate_series(0, 20) AS n
            """
        )
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        #expect(try await Retention(worker).run(samples: .seconds(14 * 86_400)).isComplete)
        #expect(try await fixture.count("samples") == 15, "the last 14 days, and today")
        _ = try await Retention(worker).run(samples: nil)
        #expect(try await fixture.count("samples") == 15)
        _ = try await Retention(worker).run(samples: .zero)
        #expect(try await fixture.count("samples") == 1, "what is off leaves the running day")
    }

    @Test("a subject's text is read as it is written", arguments: ["store", "sender:12:34", "handler:a:b c"])
    func subjects(text: String) {
        #expect(HistorySubject(text)?.description == text)
    }

    @Test(
        "what is no subject",
        arguments: ["", "store:", "store:x", "handler", "handler:", "worker:x", "handler:a\0b"]
    )
    func noSubjects(text: String) { #expect(HistorySubject(text) == nil) }
}
