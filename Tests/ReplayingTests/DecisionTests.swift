import DatabaseSupport
import Foundation
import Postgres
import Testing

@testable import Replaying

@Suite("Replays: decisions that meet others", .timeLimit(.minutes(10)))
struct ReplayDecisionTests {
    /// Applies a decision over a connection of its own.
    private func apply(
        _ event: ReplayEvent,
        to name: String,
        _ fixture: ReplayFixture,
        pace: ReplayPace? = nil
    ) async throws -> Result<ReplayState, ReplayError> {
        let connection = try await PostgresConnection.open(fixture.settings)
        let result = try await connection.inTransaction { connection throws(PostgresError) in
            try ReplayTable.apply(connection, event, to: name, by: .tester, pace: pace).map(\.replay.state)
        }
        await connection.close()
        return result
    }

    private func waitUntilBlocked(_ count: Int, by kind: String, _ fixture: ReplayFixture) async throws {
        try await fixture.database.waitUntil(
            """
            SELECT count(*) = \(count) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = '\(kind)'
            """
        )
    }

    @Test(
        "of two replays to one handler that are started at once one runs, whatever isolation is the default",
        arguments: ["read committed", "repeatable read", "serializable"]
    )
    func rivals(_ isolation: String) async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(3)
        for name in ["a", "b"] { try await fixture.plan(fixture.request(name, .handlers(["audit"], .all))) }
        let database = try #require(try await fixture.texts("SELECT current_database()").first)
        try await fixture.script("ALTER DATABASE \(database) SET default_transaction_isolation = '\(isolation)'")
        try await fixture.script("SELECT pg_advisory_lock(hashtextextended('upstream.replays', 0))")
        async let first = apply(.start, to: "a", fixture)
        async let second = apply(.start, to: "b", fixture)
        try await waitUntilBlocked(2, by: "advisory", fixture)
        try await fixture.script("SELECT pg_advisory_unlock_all()")
        let results = try await [first, second]
        let running = results.count { (try? $0.get()) == .running }
        #expect(running == 1, "\(results)")
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.replays WHERE state = 'running'") == 1)
    }

    @Test(
        "a replay that ends while somebody decides about it has ended",
        arguments: [ReplayEvent.pause, .cancel]
    )
    func endMeanwhile(_ event: ReplayEvent) async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(3)
        try await fixture.plan(fixture.request("r", .handlers(["audit"], .all)))
        try await fixture.apply(.start)
        let lease = try await fixture.take(owner: "a")
        #expect(try await fixture.step(lease, from: 0, count: 3).done == 3)
        let runner = try await PostgresConnection.open(fixture.settings)
        try await runner.run { connection throws(PostgresError) in
            try connection.script("BEGIN")
            try connection.run(LeaseStatements.end(lease, error: nil))
        }
        async let decision = apply(event, to: "r", fixture)
        try await waitUntilBlocked(1, by: "transactionid", fixture)
        try await runner.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        await runner.close()
        guard case .failure(let error) = try await decision else {
            Issue.record("\(event) was applied")
            return
        }
        #expect(error.kind == .refused && error.message.contains("already finished"), "\(error)")
        let replay = try await fixture.replay()
        #expect(replay.state == .finished && replay.finishedAt != nil)
    }

    @Test("a pace that is asked for while it runs is set where its runner has died, and refused where it has not")
    func paceOfRunning() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(3)
        try await fixture.plan(fixture.request("r", .handlers(["audit"], .all)) { $0.pace.concurrency = 7 })
        try await fixture.apply(.start)
        _ = try await fixture.take(owner: "a")
        let slow = ReplayPace(rate: 10, concurrency: 7)
        for event in [ReplayEvent.start, .resume] {
            guard case .failure(let error) = try await apply(event, to: "r", fixture, pace: slow) else {
                Issue.record("a runner is not told")
                return
            }
            #expect(error.kind == .refused && error.message.contains("pause it"))
        }
        #expect(try await apply(.start, to: "r", fixture, pace: fixture.replay().pace).get() == .running)
        try await fixture.script("UPDATE upstream.replays SET lease_until = now() - interval '1 s'")
        #expect(try await apply(.start, to: "r", fixture, pace: slow).get() == .running)
        #expect(try await fixture.replay().pace == slow)
    }

    @Test("a file of stanzas has one on each line, also where a device wrote its data over several")
    func stanzaLines() async throws {
        let fixture = try await ReplayFixture()
        try await fixture.seed(3)
        try await fixture.script(
            "UPDATE upstream.messages SET data = E'{\\n\"a\":\\r\\n1}', extra = E'{\"e\":\\n2}' WHERE message_id = 'm-2'"
        )
        let path = "/tmp/upstream-replay-\(UInt64.random(in: 0...UInt64.max)).xml"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await fixture.plan(fixture.request("r", .other(.output(path: path, format: .stanzas))))
        try await fixture.apply(.start)
        #expect(try await fixture.runner().run(fixture.replay()) == .finished)
        let lines = try Data(contentsOf: URL(filePath: path)).split(separator: 0x0A)
            .map { String(decoding: $0, as: UTF8.self) }
        #expect(lines.count == 3 && lines.allSatisfy { $0.hasPrefix("<message ") && $0.hasSuffix("</message>") })
        #expect(lines.contains { $0.contains(#"{&#10;"a":&#13;&#10;1}"#) && $0.contains(#""e":&#10;2"#) }, "\(lines)")
    }
}
