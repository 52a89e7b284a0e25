import Digests
import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("forget: tables that somebody holds", .timeLimit(.minutes(5)))
struct ErasureLockTests {
    @Test("a day whose rows can't be vacuumed yet is told once all is deleted, recorded, and vacuumed elsewhere")
    func vacuum() async throws {
        let fixture = try await StoreFixture()
        let token = "token-SECRET"
        var messages: [IncomingMessage] = [.make(1, token: token), .make(2, token: token)]
        messages[1].receivedAt -= 86_400_000_000
        for index in messages.indices { messages[index].deviceKey = Digest128(hashing: token) }
        _ = try await fixture.store().commit(messages)
        let vacuumed = """
            SELECT count(*) FROM pg_stat_user_tables WHERE schemaname = 'upstream' AND relname LIKE 'messages_%' AND vacuum_count > 0
            """
        let builder = try await PostgresConnection.open(fixture.settings)
        let yesterday = try #require(
            try await fixture.text(
                "SELECT tableoid::regclass::text FROM upstream.messages ORDER BY received_at LIMIT 1"
            )
        )
        try await builder.run { connection throws(PostgresError) in
            try connection.script("BEGIN; LOCK TABLE \(yesterday) IN SHARE UPDATE EXCLUSIVE MODE")
        }
        var settings = fixture.settings
        settings.lockTimeout = 100
        let connection = try await PostgresConnection.open(settings)
        let erasure = Erasure(connection, token: Array(token.utf8))
        let error = await #expect(throws: PostgresError.self) { try await erasure.run(by: .tester) }
        #expect(error?.failureClass == .lock && error?.message.contains("everything is deleted") == true)
        #expect(try await fixture.count("messages") == 0)
        #expect(try await fixture.integer("SELECT count FROM upstream.audit WHERE action = 'forget.finished'") == 2)
        try await fixture.waitUntil(vacuumed.replacing("count(*)", with: "count(*) = 1"))
        await connection.close()
        await builder.close()
    }

    @Test(
        "a trigger that keeps a device's messages is an error, and nothing else of them goes",
        arguments: [
            "messages", "conflicts",
        ]
    )
    func kept(_ table: String) async throws {
        let fixture = try await DeliveriesFixture()
        let token = "token-SECRET"
        var message = IncomingMessage.make(1, token: token)
        message.deviceKey = Digest128(hashing: token)
        _ = try await fixture.writer.commit([message])
        _ = try await fixture.writer.commit([message.copy(fingerprint: 77)])
        try await fixture.store.script(
            """
            CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
            CREATE TRIGGER keep BEFORE DELETE ON upstream.\(table) FOR EACH ROW EXECUTE FUNCTION public.keep()
            """
        )
        let erasure = Erasure(fixture.store.admin, token: Array(token.utf8))
        let error = await #expect(throws: PostgresError.self) { try await erasure.run(by: .tester) }
        #expect(error?.message.contains("1 of 1 rows of upstream.\(table)") == true, "\(String(describing: error))")
        #expect(try await fixture.store.count(table) == 1)
        #expect(try await fixture.count() == (table == "messages" ? 1 : 0))
    }
}
