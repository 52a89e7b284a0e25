import Dispatcher
import Foundation
import MessageStore
import Postgres
import Testing
import UpstreamKit

/// What a claim reads, counted by PostgreSQL, with few and with very many rows that wait.
///
/// `UPSTREAM_CLAIM_ROWS=1000000` takes the large table from 100,000 to a million.
@Suite("claims cost what they find, not what waits", .serialized, .timeLimit(.minutes(20)))
struct ClaimCostTests {
    enum Queue: String, CaseIterable { case unordered, ordered, resting }

    /// What else there is; without statistics is what a crash of the server leaves, and a standby that has taken over.
    enum Circumstance: String, CaseIterable { case plain, oldSnapshot, withoutStatistics }

    struct Found: CustomStringConvertible {
        /// Of a worker that has just started, where nothing is due.
        var first: Cost?
        var claim: Cost
        var probe: Cost

        var description: String { "\(claim); a probe: \(probe)" + (first.map { "; at first: \($0)" } ?? "") }
    }

    struct Cost: CustomStringConvertible {
        var buffers: Int64
        var entries: Int64
        var claimed: Int

        var description: String { "\(buffers) buffers, \(entries) entries, \(claimed) claimed" }
    }

    /// Buffers and index entries of the table that were read by sessions that have ended.
    private func counters(_ fixture: DeliveriesFixture, sessions: Int) async throws -> (Int64, Int64) {
        try await fixture.store.waitUntil(
            """
            SELECT count(*) = \(sessions) FROM pg_stat_activity
            WHERE datname = current_database() AND backend_type LIKE 'client%'
            """
        )
        let buffers = """
            SELECT (heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read)::bigint
            FROM pg_statio_user_tables WHERE relname = 'deliveries'
            """
        let entries = """
            SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE relname = 'deliveries'
            """
        return (try await fixture.store.integer(buffers) ?? 0, try await fixture.store.integer(entries) ?? 0)
    }

    private func cost(_ rows: Int, _ queue: Queue, _ circumstance: Circumstance) async throws -> Found {
        let isOrdered = queue != .unordered
        let fixture = try await DeliveriesFixture([.make("orders", ordering: isOrdered ? .device : .none)])
        await fixture.writer.close()
        // Ten to a device; those that rest are due in an hour.
        try await inOwnSession(
            fixture,
            """
            ALTER TABLE upstream.deliveries SET (autovacuum_enabled = off);
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, device_key)
            SELECT 'orders', md5(n::text)::uuid, now() - n * interval '1 ms',
                now() \(queue == .resting ? "+ interval '1 hour'" : "- interval '1 hour'") + n % 1000 * interval '1 s',
                \(isOrdered ? "md5((n % \(max(1, rows / 10)))::text)::uuid" : "NULL")
            FROM generate_series(1, \(rows)) AS n;
            \(circumstance == .withoutStatistics ? "" : "ANALYZE upstream.deliveries")
            """
        )
        if circumstance == .withoutStatistics { try await inOwnSession(fixture, "SELECT pg_stat_reset()") }
        let report = try await PostgresConnection.open(fixture.store.settings)
        if circumstance == .oldSnapshot {
            try await report.run { connection throws(PostgresError) in
                try connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM upstream.deliveries")
            }
        }
        let request = ClaimRequest.make(limit: 500, ordered: isOrdered)
        let first = queue == .resting ? try await cost(request, fixture, fixture.another(), rounds: 1) : nil
        // A good part has been handled before.
        var handled = 0
        repeat {
            let batch = try await fixture.deliveries.claim(request).map { $0.settled(.done) }
            guard !batch.isEmpty else { break }
            _ = try await fixture.deliveries.settle(batch, of: "orders")
            handled += batch.count
        } while handled < rows * 4 / 10
        let claim = try await cost(request, fixture, fixture.deliveries)
        // The worst for a probe: all that is due has failed before.
        try await inOwnSession(fixture, "UPDATE upstream.deliveries SET attempts = 1 WHERE next_attempt_at <= now()")
        var probe = request
        probe.isForUntried = true
        probe.limit = 1
        let probed = try await cost(probe, fixture, fixture.deliveries)
        await report.close()
        return Found(first: first, claim: claim, probe: probed)
    }

    /// What a session has read and written is certain to be counted only when it ends.
    private func inOwnSession(_ fixture: DeliveriesFixture, _ script: String) async throws {
        let session = try await PostgresConnection.open(fixture.store.settings)
        try await session.run { connection throws(PostgresError) in try connection.script(script) }
        await session.close()
    }

    /// What one claim reads, on average.
    private func cost(
        _ request: ClaimRequest,
        _ fixture: DeliveriesFixture,
        _ deliveries: PostgresDeliveryStore,
        rounds: Int = 4
    ) async throws -> Cost {
        var cost = Cost(buffers: 0, entries: 0, claimed: 0)
        for _ in 0..<rounds {
            let round = try await self.cost(fixture, deliveries) { try await deliveries.claim(request).count }
            cost.claimed += round.claimed
            cost.buffers += round.buffers
            cost.entries += round.entries
        }
        return Cost(
            buffers: cost.buffers / Int64(rounds),
            entries: cost.entries / Int64(rounds),
            claimed: cost.claimed / rounds
        )
    }

    /// What some work reads that returns how many rows it took.
    private func cost(
        _ fixture: DeliveriesFixture,
        _ deliveries: PostgresDeliveryStore,
        of work: () async throws -> Int
    ) async throws -> Cost {
        await fixture.deliveries.close()
        let before = try await counters(fixture, sessions: 2)
        let taken = try await work()
        await deliveries.close()
        let after = try await counters(fixture, sessions: 2)
        return Cost(buffers: after.0 - before.0, entries: after.1 - before.1, claimed: taken)
    }

    @Test(
        "where a snapshot keeps 50,000 handled rows, and a vacuum has counted 80 others, 500 are claimed and settled by index"
    )
    func heldSnapshot() async throws {
        let fixture = try await DeliveriesFixture([.make("orders")])
        await fixture.writer.close()
        let report = try await PostgresConnection.open(fixture.store.settings)
        try await report.run { connection throws(PostgresError) in
            try connection.script("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM upstream.deliveries")
        }
        func insert(_ count: Int, due: String) async throws {
            try await inOwnSession(
                fixture,
                """
                INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
                SELECT 'orders', gen_random_uuid(), now(), now() + \(due) FROM generate_series(1, \(count)) AS n
                """
            )
        }
        try await inOwnSession(fixture, "ALTER TABLE upstream.deliveries SET (autovacuum_enabled = off)")
        try await insert(50_000, due: "n * interval '-1 ms' - interval '1 s'")
        let request = ClaimRequest.make(limit: 500)
        while case let batch = try await fixture.deliveries.claim(request), !batch.isEmpty {
            _ = try await fixture.deliveries.settle(batch.map { $0.settled(.done) }, of: "orders")
        }
        try await insert(80, due: "interval '0'")
        try await inOwnSession(fixture, "VACUUM ANALYZE upstream.deliveries")
        try await insert(1_000, due: "interval '0'")
        for _ in 0..<2 {
            var claimed: [Delivery] = []
            let claim = try await cost(fixture, fixture.deliveries) {
                claimed = try await fixture.deliveries.claim(request)
                return claimed.count
            }
            let settlements = claimed.map { $0.settled(.done) }
            let settlement = try await cost(fixture, fixture.deliveries) {
                try await fixture.deliveries.settle(settlements, of: "orders")
            }
            print("claim: \(claim); settlement: \(settlement)")
            #expect(claim.claimed == 500 && claim.entries < 10_000, "\(claim)")
            #expect(settlement.claimed == 500 && settlement.entries < 10_000, "\(settlement)")
        }
        await report.close()
    }

    @Test("a claim of 500, and a probe, read no more of a large table than of a small one, whatever is known of it")
    func flat() async throws {
        let large = Int(ProcessInfo.processInfo.environment["UPSTREAM_CLAIM_ROWS"] ?? "") ?? 100_000
        for queue in Queue.allCases {
            let small = try await cost(5_000, queue, .plain)
            print("\(queue) 5000: \(small)")
            for circumstance in Circumstance.allCases {
                let found = try await cost(large, queue, circumstance)
                let name = "\(queue) \(large) \(circumstance)"
                print("\(name): \(found)")
                #expect(found.claim.claimed == (queue == .resting ? 0 : 500))
                #expect(found.claim.buffers < 5 * max(small.claim.buffers, 10_000), "\(name): \(found.claim)")
                #expect(found.claim.entries < 5 * max(small.claim.entries, 5_000), "\(name): \(found.claim)")
                #expect(found.probe.claimed == 0)
                #expect(found.probe.buffers < 5 * max(small.probe.buffers, 10_000), "\(name): a probe: \(found.probe)")
                #expect(found.probe.entries < 5 * max(small.probe.entries, 5_000), "\(name): a probe: \(found.probe)")
                #expect((found.first?.buffers ?? 0) < 50_000, "\(name): \(found)")
                #expect((found.first?.entries ?? 0) < 25_000, "\(name): \(found)")
            }
        }
    }
}
