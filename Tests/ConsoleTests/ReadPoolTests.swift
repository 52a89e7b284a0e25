import HTTPTypes
import Postgres
import QuerySupport
import Testing

@testable import Console

@Suite struct ReadPoolTests {
    @Test("a session that reads can't change anything")
    func readOnly() async throws {
        let database = try await QueryFixture()
        let pool = ReadPool(database.settings, size: 1)
        for _ in 0..<2 {
            await #expect {
                try await pool.run { connection throws(PostgresError) in
                    try connection.script("CREATE TABLE public.x ()")
                }
            } throws: {
                ($0 as? PostgresError)?.sqlState == "25006"
            }
        }
        await pool.close()
    }

    /// No cancel ends it: a plan of thousands of conditions compiled for 20 minutes.
    @Test("no session compiles plans, whether it reads or writes", arguments: [true, false])
    func compiling(isReadOnly: Bool) async throws {
        let database = try await QueryFixture()
        let pool = ReadPool(database.settings, size: 1, isReadOnly: isReadOnly)
        let value = try await pool.run { connection throws(PostgresError) in
            try connection.run("SHOW jit").value(String.self)
        }
        #expect(value == "off")
        await pool.close()
    }

    @Test("who finds every session in use waits, and beyond 64 is told to come again")
    func busy() async throws {
        let database = try await QueryFixture()
        let pool = ReadPool(database.settings, size: 1)
        let (release, lock) = ("SELECT pg_advisory_unlock_all()", "SELECT pg_advisory_lock(7)")
        try await database.script(lock)
        let results = await withTaskGroup(of: String.self) { group in
            for _ in 0..<80 {
                group.addTask {
                    do throws(PostgresError) {
                        try await pool.run { connection throws(PostgresError) in
                            try connection.script("SELECT pg_advisory_lock_shared(7)")
                        }
                        return "done"
                    } catch {
                        return Problem(error).kind
                    }
                }
            }
            var results: [String] = []
            for _ in 0..<15 { if let result = await group.next() { results.append(result) } }
            try? await database.script(release)
            for await result in group { results.append(result) }
            return results
        }
        // One session, 64 that wait, 15 that may not.
        #expect(results.prefix(15).allSatisfy { $0 == "busy" }, "\(results)")
        #expect(results.filter { $0 == "done" }.count == 65)
        await pool.close()
    }

    @Test("while the database is away everybody is told so at once")
    func away() async throws {
        let pool = ReadPool(try PostgresSettings(url: "postgresql://127.0.0.1:1/nothing"), size: 2)
        let start = ContinuousClock.now
        for _ in 0..<50 {
            await #expect {
                try await pool.run { connection throws(PostgresError) in try connection.script("SELECT 1") }
            } throws: {
                ($0 as? PostgresError).map { Problem($0).kind } == "database-unavailable"
            }
        }
        #expect(ContinuousClock.now - start < .seconds(5))
        await pool.close()
    }

    @Test("a statement that takes too long is given up, and the answer says what to change")
    func timeout() async throws {
        let database = try await QueryFixture()
        var settings = database.settings
        settings.statementTimeout = 100
        let pool = ReadPool(settings, size: 1)
        await #expect {
            try await pool.run { connection throws(PostgresError) in try connection.script("SELECT pg_sleep(60)") }
        } throws: {
            let problem = ($0 as? PostgresError).map { Problem($0) }
            return problem?.status == .gatewayTimeout && problem?.detail.contains("statement_timeout") == true
        }
        // And the session goes on.
        try await pool.run { connection throws(PostgresError) in try connection.script("SELECT 1") }
        await pool.close()
    }
}
