import Ingest
import MessageStore
import Testing
import Vocabulary

/// Bodies of more than 2 kB are compressed with lz4, where the server has it.
@Suite struct CompressionTests {
    /// Compresses well, and is too long for a row as it is.
    private static let large = #"{"text":""# + String(repeating: "0123456789abcdef", count: 500) + #""}"#

    private func ensureDays(_ fixture: StoreFixture, _ days: ClosedRange<Int>) async throws {
        let today = "(now() AT TIME ZONE 'UTC')::date"
        try await fixture.script(
            "SELECT upstream.ensure_partitions(\(today) + \(days.lowerBound), \(today) + \(days.upperBound))"
        )
    }

    /// Stores a message with a large body of either kind, another content of the first, and a large stanza in quarantine.
    private func store(_ number: UInt64, daysAhead: Int64 = 0, _ fixture: StoreFixture) async throws {
        let time = IncomingMessage.now() + daysAhead * 86_400_000_000
        let message = IncomingMessage.make(number, data: Self.large, receivedAt: time)
        let batch = [
            message, .make(number + 1, data: Self.large, form: .raw, receivedAt: time + 1),
            message.copy(fingerprint: number + 5),
            .make(number + 2, data: Self.large, receivedAt: time + 2, quarantine: .duplicateKey),
        ]
        let store = fixture.store()
        #expect(try await store.commit(batch) == [.stored, .stored, .conflict, .quarantined])
        await store.close()
        // What a device may add to a message, as large.
        try await fixture.script(
            """
            INSERT INTO upstream.messages (
                message_key, received_at, sender_id, message_id, registration_token, device_key, category, extra
            )
            SELECT gen_random_uuid(), received_at, sender_id, 'extra-\(number)', registration_token, device_key, category, data
            FROM upstream.messages WHERE message_id = 'm-\(number)'
            """
        )
    }

    /// How the bodies of these messages are compressed, of each kind and table.
    private func methods(_ number: UInt64, _ fixture: StoreFixture) async throws -> String? {
        try await fixture.text(
            """
            SELECT concat_ws(
                ' ',
                (SELECT pg_column_compression(data) FROM upstream.messages WHERE message_id = 'm-\(number)'),
                (SELECT pg_column_compression(data_raw) FROM upstream.messages WHERE message_id = 'm-\(number + 1)'),
                (SELECT pg_column_compression(extra) FROM upstream.messages WHERE message_id = 'extra-\(number)'),
                (SELECT pg_column_compression(data) FROM upstream.conflicts WHERE message_id = 'm-\(number)'),
                (SELECT pg_column_compression(stanza) FROM upstream.quarantine WHERE message_id = 'm-\(number + 2)')
            )
            """
        )
    }

    /// The columns of bodies that are not compressed with lz4, in every day, too; nil where all are.
    private func others(_ fixture: StoreFixture) async throws -> String? {
        try await fixture.text(
            """
            SELECT string_agg(format('%s.%s', c.relname, a.attname), ' ' ORDER BY c.relname, a.attname)
            FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
            WHERE c.relnamespace = 'upstream'::regnamespace AND c.relkind IN ('r', 'p') AND a.attcompression <> 'l'
                AND (c.relname ~ '^messages(_[0-9]+)?$' OR c.relname IN ('conflicts', 'quarantine'))
                AND a.attname IN ('data', 'data_raw', 'extra', 'stanza')
            """
        )
    }

    private func expectReadable(_ numbers: [UInt64], _ fixture: StoreFixture) async throws {
        for number in numbers {
            let found = try await fixture.text(
                "SELECT data::text FROM upstream.messages WHERE message_id = 'm-\(number)'"
            )
            #expect(found == Self.large, "\(number)")
        }
    }

    @Test("large bodies are lz4 in every table and day, also of days that are made later")
    func largeBodies() async throws {
        let fixture = try await StoreFixture()
        try await ensureDays(fixture, 8...9)
        #expect(try await others(fixture) == nil)
        for (number, day) in [(10, 0), (20, 9)] as [(UInt64, Int64)] {
            try await store(number, daysAhead: day, fixture)
            #expect(try await methods(number, fixture) == "lz4 lz4 lz4 lz4 lz4")
        }
        try await expectReadable([10, 20], fixture)
    }

    @Test("a server without lz4 is migrated, and compresses in its own way", arguments: ["data", "stanza"])
    func withoutSupport(_ column: String) async throws {
        let fixture = try await StoreFixture(migrated: false)
        // Refused with the SQLSTATE of a server that was built without lz4: numbers are not compressed.
        let refused = column == "data" ? "received_at" : "id"
        let steps = Migration.embedded.map { step in
            let up = step.up.replacing("COLUMN \(column) SET COMPRESSION", with: "COLUMN \(refused) SET COMPRESSION")
            #expect((up != step.up) == (step.name == "receiving"))
            return Migration(
                fileName: "\(step.version)_\(step.name).sql",
                text: "-- migrate:up\n\(up)\n-- migrate:down\n\(step.down)"
            )
        }
        #expect(try await Migrator(steps).up(fixture.admin) == steps.map(\.version))
        try await ensureDays(fixture, 0...0)
        try await store(10, fixture)
        #expect(try await methods(10, fixture) == "pglz pglz pglz pglz pglz")
        try await expectReadable([10], fixture)
    }
}
