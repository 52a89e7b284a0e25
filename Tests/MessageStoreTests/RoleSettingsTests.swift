import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

/// Whatever a role or a database may set by default: what is acked is stored as it came.
@Suite("parameters at their worst")
struct RoleSettingsTests {
    /// Texts that have no list of values.
    private static let texts = [
        "DateStyle": "SQL, DMY", "TimeZone": "Asia/Kathmandu", "search_path": "nowhere", "lc_numeric": "C",
        "default_text_search_config": "pg_catalog.simple", "timezone_abbreviations": "Australia",
        "restrict_nonsystem_relation_kind": "view",
    ]
    /// Nothing is acked under these, and nothing lost: the server takes no writes.
    private static let stalling: Set<String> = ["default_transaction_read_only"]

    private struct Setting: Sendable {
        let name: String
        let value: String
    }

    /// Each parameter that any user may set, with each of its values, or its bounds.
    private func settings(_ fixture: StoreFixture) async throws -> [Setting] {
        let found = try await fixture.admin.run { connection throws(PostgresError) in
            try connection.query(
                """
                SELECT name, unnest(CASE vartype
                    WHEN 'bool' THEN ARRAY[CASE WHEN setting = 'on' THEN 'off' ELSE 'on' END]
                    WHEN 'enum' THEN enumvals
                    WHEN 'string' THEN ARRAY['']
                    ELSE ARRAY[min_val, max_val] END)
                FROM pg_settings
                WHERE context = 'user' AND name !~ '^(transaction_|client_encoding|application_name|seed|tcp_)'
                """
            ).map { row throws(PostgresError) in Setting(name: try row.next(), value: try row.next()) }
        }
        return found.compactMap { setting in
            guard setting.value.isEmpty else { return setting }
            return Self.texts[setting.name].map { Setting(name: setting.name, value: $0) }
        }
    }

    @Test(
        "a message, a conflict and a quarantined stanza are stored as they came, or nothing is acked",
        .timeLimit(.minutes(10))
    )
    func everySetting() async throws {
        let fixture = try await StoreFixture()
        let settings = try await settings(fixture)
        #expect(settings.count > 150)
        let data = #"{"é":[1.50, "\\ '","x"], "t":"2026-01-02"}"#
        for (number, setting) in settings.enumerated() {
            try await fixture.setDefault(setting.name, setting.value)
            let store = fixture.store()
            let key = UInt64(number * 10 + 1)
            let message = IncomingMessage.make(key, data: data)
            let batch = [
                message, message.copy(fingerprint: 2), .make(key + 1, data: data, quarantine: .duplicateKey),
                .make(key + 2, data: data),
            ]
            let outcomes = try? await store.commit(batch)
            await store.close()
            try await reset(fixture, setting.name)
            guard let outcomes else {
                #expect(Self.stalling.contains(setting.name), "\(setting) acks nothing")
                continue
            }
            #expect(outcomes == [.stored, .conflict, .quarantined, .stored], "\(setting)")
            let stored = try await fixture.text(
                """
                SELECT concat_ws(' ',
                    (SELECT count(*) FROM upstream.message_ids AS i JOIN upstream.messages AS m USING (message_key, received_at)
                    WHERE m.message_id IN ('m-\(key)', 'm-\(key + 2)') AND m.data::text = '\(data.replacing("'", with: "''"))'),
                    (SELECT count(*) FROM upstream.conflicts WHERE message_id = 'm-\(key)' AND data::text = '\(data.replacing("'", with: "''"))'),
                    (SELECT count(*) FROM upstream.quarantine WHERE message_id = 'm-\(key + 1)'))
                """
            )
            #expect(stored == "2 1 1", "\(setting)")
        }
    }

    private func reset(_ fixture: StoreFixture, _ name: String) async throws {
        let database = fixture.url.split(separator: "/")[1].prefix { $0 != "?" }
        try await fixture.script("ALTER DATABASE \(database) RESET \(name)")
    }
}
