import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@Suite("what a site has added or set, and what it keeps from nobody", .timeLimit(.minutes(5)))
struct OwnColumnTests {
    @Test("a column more in messages keeps no delivery from its message, wherever that is kept")
    func messages() async throws {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...2)
        let conflict = IncomingMessage.make(1).copy(fingerprint: 77)
        _ = try await fixture.writer.commit([conflict])
        let columns = """
            message_key, sender_id, message_id, registration_token, device_key, category, data, data_raw, extra,
            message_type, stanza_from, received_at
            """
        try await fixture.store.script(
            """
            INSERT INTO upstream.dead_messages (\(columns)) SELECT \(columns) FROM upstream.messages WHERE message_id = 'm-2';
            DELETE FROM upstream.messages WHERE message_id = 'm-2';
            ALTER TABLE upstream.messages ADD COLUMN own text DEFAULT 'x'
            """
        )
        _ = try await ConflictRelease.release(
            MessageKey(conflict.messageKey),
            fingerprint: conflict.fingerprint,
            by: .tester,
            fixture.store.admin
        )
        let claimed = try await fixture.claim()
        #expect(claimed.count == 3 && Set(claimed.map(\.number)).isSuperset(of: [1, 2]))
    }

    @Test("functions are made also where PL/pgSQL's warnings are errors")
    func extraErrors() async throws {
        let fixture = try await StoreFixture(migrated: false)
        try await fixture.setDefault("plpgsql.extra_errors", "all")
        let connection = try await PostgresConnection.open(fixture.settings)
        #expect(try await Migrator().up(connection) == Migration.embedded.map(\.version))
        await connection.close()
    }
}
