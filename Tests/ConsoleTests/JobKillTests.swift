import ConsoleSupport
import Foundation
import Glibc
import IntegrationSupport
import MessageStore
import Postgres
import QuerySupport
import Testing
import Vocabulary

@testable import Console

@Suite("jobs survive the console")
struct JobKillTests {
    /// Freezes and starts a job without a console.
    private func start(_ database: QueryFixture, _ fate: DeadLetters.Fate) async throws -> Digest128 {
        var filter = DeadLetterFilter()
        filter.handler = "orders"
        let (chosen, author) = (filter, AuditAuthor("anna", via: .console, reason: "up again"))
        let result = try await database.admin.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) -> Digest128? in
                guard case .success(let job?) = try Jobs.freeze(connection, fate, chosen, who: "anna") else {
                    return nil
                }
                _ = try Jobs.start(connection, job.id, fate, by: author)
                return job.id
            }
        }
        return try #require(result)
    }

    @Test(
        "a console that is killed in the middle of 100,000 dead letters leaves each done or not done, and the next goes on"
    )
    func killed() async throws {
        let database = try await QueryFixture()
        try await database.kill(100_000)
        try await database.kill(7, "billing")
        let job = try await start(database, .retry)
        let folder = try TemporaryFolder()
        let yaml = """
            database: {url: "\(database.url)"}
            console: {listen: "127.0.0.1:0"}
            """
        let first = try ChildWorker(yaml: yaml, in: folder, command: ["console"])
        try await database.waitUntil("SELECT next_chunk >= 5 FROM upstream.jobs")
        first.send(SIGKILL)
        #expect(try await first.exitCode() == -SIGKILL)
        // Whatever it was at is rolled back when the server notices.
        try await database.waitUntil(
            """
            SELECT NOT EXISTS (
                SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%job_items%' AND state <> 'idle'
                    AND pid <> pg_backend_pid()
            )
            """
        )
        let done = try #require(try await database.integer("SELECT done FROM upstream.jobs WHERE state = 'running'"))
        #expect((5_000..<100_000).contains(done), "it was not in the middle: \(done)")
        #expect(try await database.integer("SELECT next_chunk FROM upstream.jobs") == done / 1_000)
        #expect(try await database.integer("SELECT count(*) FROM upstream.deliveries") == done)
        #expect(try await database.integer("SELECT count(*) FROM upstream.dead_letters") == 100_007 - done)
        let second = try ChildWorker(yaml: yaml, in: folder, command: ["console"])
        try await database.waitUntil("SELECT state = 'finished' FROM upstream.jobs WHERE job = '\(job)'")
        second.send(SIGTERM)
        _ = try await second.exitCode()
        #expect(try await database.integer("SELECT done FROM upstream.jobs") == 100_000)
        #expect(try await database.integer("SELECT skipped FROM upstream.jobs") == 0)
        #expect(try await database.integer("SELECT count(*) FROM upstream.deliveries") == 100_000)
        #expect(try await database.integer("SELECT count(*) FROM upstream.dead_letters") == 7)
        // Recorded once where it was started, and once where it ended.
        #expect(try await database.integer("SELECT count(*) FROM upstream.audit") == 2)
        let end = "SELECT count FROM upstream.audit WHERE action = 'dead.retry.finished'"
        #expect(try await database.integer(end) == 100_000)
    }

    /// A job that ended long ago, sets that expired or not, and old keys.
    private func leaveOld(_ database: QueryFixture) async throws {
        try await database.kill(5)
        _ = try await start(database, .retry)
        try await database.script(
            """
            UPDATE upstream.jobs SET state = 'finished', finished_at = now() - interval '8 days';
            INSERT INTO upstream.jobs (action, subject, groups, planned, chunks, created_by, expires_at)
            VALUES ('dead.retry', 'x', '[]', 1, 1, 'x', now() - interval '2 hours'),
                ('dead.retry', 'kept', '[]', 1, 1, 'x', now() + interval '1 hour');
            INSERT INTO upstream.idempotency_keys (who, key, request, status, answer, created_at)
            SELECT 'x', 'n' || n, '', 200, '', now() - interval '25 hours' FROM generate_series(1, 2500) AS n
            """
        )
    }

    @Test("what has expired is swept away by any console")
    func sweep() async throws {
        try await ConsoleHarness.run(prepare: leaveOld) { console in
            try await console.waitUntil("SELECT count(*) = 1 FROM upstream.jobs")
            try await console.waitUntil("SELECT count(*) = 0 FROM upstream.idempotency_keys")
            #expect(try await console.database.text("SELECT subject FROM upstream.jobs") == "kept")
        }
    }
}
