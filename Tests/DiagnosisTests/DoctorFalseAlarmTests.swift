import DatabaseSupport
import Postgres
import Testing

@Suite("doctor: what is only at work is no finding", .timeLimit(.minutes(5)))
struct DoctorFalseAlarmTests {
    @Test("an index that is being built is not invalid")
    func indexInTheMaking() async throws {
        let fixture = try await DoctorFixture()
        let writer = try await PostgresConnection.open(fixture.database.settings)
        let builder = try await PostgresConnection.open(fixture.database.settings)
        // The index waits for this transaction.
        try await writer.run { connection throws(PostgresError) in
            try connection.script("BEGIN; LOCK TABLE upstream.quarantine IN ROW EXCLUSIVE MODE")
        }
        let building = Task {
            try await builder.run { connection throws(PostgresError) in
                try connection.script("CREATE INDEX CONCURRENTLY spare ON upstream.quarantine (reason)")
            }
        }
        try await fixture.database.waitUntil("SELECT EXISTS (SELECT FROM pg_index WHERE NOT indisvalid)")
        #expect(try await fixture.examine().finding("index-invalid") == nil)
        await writer.close()
        try await building.value
        await builder.close()
    }
}
