import Postgres
import Testing
import Vocabulary

@testable import MessageStore

@Suite("the table of workers")
struct WorkerTableTests {
    private func report(_ number: UInt64, worker: String = "host:1") -> WorkerReport {
        var report = WorkerReport(
            instance: Digest128(high: 0, low: number),
            worker: worker,
            version: "1.2.3",
            roles: ["receive", "dispatch"]
        )
        report.uptime = .seconds(60)
        report.inFlight = 7
        report.streams = [.init(sender: "1234567890", connecting: 1, bound: 2, draining: 0)]
        report.rates.received = 12.5
        report.rates.ackP99 = 0.01
        report.handlers = [
            .init(
                handler: "orders",
                circuit: "open",
                nextProbe: 1.5,
                isPaused: false,
                running: 1,
                waiting: 2,
                attempts: 3,
                failed: 0.5,
                failedInRow: 4
            )
        ]
        report.certificates = [.init(certificate: "server", name: "1234567890", endsAt: 1_900_000_000)]
        return report
    }

    private func write(_ report: WorkerReport, _ connection: PostgresConnection) async throws {
        _ = try await connection.run { connection throws(PostgresError) in
            try connection.run(WorkerStatements.write, report)
        }
    }

    private func list(_ connection: PostgresConnection) async throws -> [WorkerRow] {
        try await connection.run { connection throws(PostgresError) in try WorkerTable.list(connection) }
    }

    @Test("what a worker tells is what is read, with the worker's role, and most updates are HOT")
    func roundTrip() async throws {
        let fixture = try await StoreFixture()
        try await fixture.addRoles()
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        var report = report(1)
        try await write(report, worker)
        report.isStopping = true
        report.rates.ackP99 = nil
        for _ in 0..<20 { try await write(report, worker) }
        let reader = try await PostgresConnection.open(try fixture.settings(as: "r"))
        let rows = try await list(reader)
        #expect(rows.count == 1)
        let row = try #require(rows.first)
        #expect(row.worker == "host:1" && row.version == "1.2.3" && row.roles == ["receive", "dispatch"])
        #expect(row.isAlive && row.isStopping && row.inFlight == 7)
        #expect(row.streams == report.streams && row.rates == report.rates && row.handlers == report.handlers)
        #expect(row.certificates == report.certificates)
        #expect(try await fixture.integer("SELECT count(*) FROM upstream.workers WHERE role = 'w'") == 1)
        #expect(row.startedAt < row.heartbeatAt)
        let updates = "FROM pg_stat_user_tables WHERE schemaname = 'upstream' AND relname = 'workers'"
        try await fixture.waitUntil("SELECT n_tup_upd = 20 \(updates)")
        // Not each: a page is full while a snapshot that another process holds keeps dead versions in it.
        let hot = try await fixture.integer("SELECT n_tup_hot_upd \(updates)") ?? 0
        #expect(hot >= 10)
    }

    @Test(
        "alive and dead are judged by the database's clock; what is dead for long is deleted, what stops removes itself"
    )
    func aliveAndDead() async throws {
        let fixture = try await StoreFixture()
        for number in 1...4 as ClosedRange<UInt64> {
            try await write(report(number, worker: "host:\(number)"), fixture.admin)
        }
        try await fixture.script(
            """
            UPDATE upstream.workers SET heartbeat_at = now() - interval '23 hours' WHERE worker IN ('host:2', 'host:4');
            UPDATE upstream.workers SET heartbeat_at = now() - interval '25 hours' WHERE worker = 'host:3'
            """
        )
        #expect(try await list(fixture.admin).map(\.isAlive) == [true, false, false, false])
        // It has the process id of one that died, and takes its place.
        let successor = report(5, worker: "host:4")
        try await write(successor, fixture.admin)
        _ = try await fixture.admin.run { connection throws(PostgresError) in
            try connection.run(WorkerStatements.purge, successor)
        }
        #expect(
            try await list(fixture.admin).map { "\($0.worker) \($0.isAlive)" } == [
                "host:1 true", "host:2 false", "host:4 true",
            ]
        )
        _ = try await fixture.admin.run { connection throws(PostgresError) in
            try connection.run(WorkerStatements.remove, successor)
        }
        #expect(try await list(fixture.admin).map(\.worker) == ["host:1", "host:2"])
    }
}
