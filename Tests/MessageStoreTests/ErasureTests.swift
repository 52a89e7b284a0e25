import Digests
import Dispatcher
import Foundation
import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@Suite("one device's traces go, everywhere and for good")
struct ErasureTests {
    private static let token = "APA91b:erase_ME-token"
    private static let other = "APA91b:keep_ME-token"
    /// Stands in every payload of the device, and in what its handlers failed with.
    private static let payload = "erase-ME-payload"
    private static let day: Int64 = 86_400_000_000

    private static func key(_ token: String) -> Digest128 { Digest128(hashing: token) }

    private static func message(_ number: UInt64, of token: String, at time: Int64, _ text: String) -> IncomingMessage {
        var message = IncomingMessage.make(
            number,
            data: "{\"text\":\"\(text)\"}",
            token: token,
            receivedAt: time + Int64(number)
        )
        message.deviceKey = key(token)
        return message
    }

    private static func stanza(_ number: UInt64, _ text: String) -> IncomingMessage {
        var message = IncomingMessage(
            kind: .malformed,
            bytes: [UInt8](text.utf8),
            stanza: ByteSpan(start: 0, count: text.utf8.count)
        )
        message.quarantine = .fromUnusable
        message.receivedAt = IncomingMessage.now() + Int64(number)
        return message
    }

    /// The ways in which the token may be written in a stanza that could not be read.
    private static let stanzas = [
        "<message><gcm>{\"from\":\"\(token)\",\"x\":\"\(payload)\"</gcm></message>",
        "<message><gcm>{&quot;from&quot;:&quot;APA91b&#58;erase&#x5F;ME-token&quot;,\(payload)</gcm></message>",
        "<message><gcm>{\"from\":\"APA91b\\u003aerase\\u005FME-token\",\(payload)</gcm></message>",
        "<message><gcm><![CDATA[{\"from\":\"APA91b:era]]><![CDATA[se_ME-token\"}\(payload)]]></gcm></message>",
        "<message><gcm>{&quot;from&quot;:&quot;APA91b&#92;u003aerase_ME-token&quot;,\(payload)</gcm></message>",
    ]

    /// Two devices with everything that may be kept of one.
    private func seed() async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture()
        let now = IncomingMessage.now()
        var batch: [IncomingMessage] = []
        for number in 1...6 as ClosedRange<UInt64> {
            let time = number % 2 == 0 ? now : now - Self.day
            batch.append(Self.message(number, of: Self.token, at: time, Self.payload))
            batch.append(Self.message(number + 10, of: Self.other, at: time, "keep"))
        }
        var raw = Self.message(7, of: Self.token, at: now, Self.payload)
        raw.dataForm = .raw
        batch.append(raw)
        batch.append(Self.message(17, of: Self.other, at: now, "keep"))
        _ = try await fixture.writer.commit(batch)
        let conflicts = [batch[0], batch[1]].map { $0.copy(fingerprint: 77) }
        let odd = Self.stanzas + ["<message>\(Self.other)</message>", "<message>\(Self.token.dropLast())</message>"]
        let quarantined = odd.enumerated().map { Self.stanza(UInt64($0.offset), $0.element) }
        _ = try await fixture.writer.commit(conflicts + quarantined)
        // A conflict that was released is kept once more in its queue.
        for conflict in conflicts {
            _ = try await ConflictRelease.release(
                MessageKey(conflict.messageKey),
                fingerprint: conflict.fingerprint,
                by: .tester,
                fixture.store.admin
            )
        }
        // Some are done, some wait for a retry with an error, some are dead with one; both quote the payload.
        let settled = try await fixture.claim().map { delivery in
            guard case .stored(let message) = delivery.content else { return delivery.settled(.done) }
            let isKept = message.registrationToken.rawValue == Self.other
            let failure = HandlerFailure(
                group: "g",
                detail: isKept ? "keep" : "could not take \(Self.payload) of \(Self.token)"
            )
            // The number of what was released is a hash.
            return switch delivery.number < 100 ? delivery.number % 3 : 0 {
            case 0: delivery.settled(.dead(failure, isCounted: true))
            case 1: delivery.settled(.retry(after: .seconds(60), failure))
            default: delivery.settled(.done)
            }
        }
        _ = try await fixture.deliveries.settle(settled, of: "orders")
        // A day that retention has dropped: its bodies are where its dead letters have them.
        let past = IncomingMessage.now() - 50 * Self.day
        _ = try await fixture.writer.commit([
            Self.message(20, of: Self.token, at: past, Self.payload),
            Self.message(30, of: Self.other, at: past, "keep"),
        ])
        let failure = HandlerFailure(group: "g", detail: "keep")
        _ = try await fixture.deliveries.settle(
            try await fixture.claim().map { $0.settled(.dead(failure, isCounted: true)) },
            of: "orders"
        )
        try await Retention(fixture.store.admin).set(.usual, by: .tester)
        #expect(try await Retention(fixture.store.admin, pace: .brisk).run().deadLettersKept == 2)
        try await fixture.store.script("ANALYZE")
        return fixture
    }

    /// What a dump of the database holds, in every form that a value may be written in.
    private func dump(_ fixture: DeliveriesFixture) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/pg_dump")
        process.arguments = ["--dbname", fixture.store.url]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let bytes = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Which forms of the token and of the payload are in a text.
    private func traces(in text: String) -> [String] {
        [Self.token, Self.payload].flatMap { secret -> [String] in
            let hex = secret.utf8.map { String(format: "%02x", $0) }.joined()
            // Half of it is enough, for a piece of it may stand by itself.
            return [
                String(secret.dropFirst(6)), hex, String(hex.dropFirst(12)), Data(secret.utf8).base64EncodedString(),
            ]
            .filter { text.lowercased().contains($0.lowercased()) }
        }
    }

    @Test("a dump holds no trace, the other device keeps all, and the ledger still knows every message")
    func everything() async throws {
        let fixture = try await seed()
        let store = fixture.store
        // Tokens and payloads are in plain and in hex.
        #expect(traces(in: try dump(fixture)).count >= 6)
        let ledger = try await store.count("message_ids")
        let kept = try await self.kept(store)
        let keys = try await store.text(
            """
            SELECT string_agg(message_key::text, ' ' ORDER BY message_key) FROM (
                SELECT message_key, device_key FROM upstream.messages
                UNION ALL SELECT message_key, device_key FROM upstream.dead_messages
                UNION ALL SELECT message_key, device_key FROM upstream.conflicts
            ) AS known WHERE device_key = '\(Self.key(Self.token))'
            """
        )
        let erasure = Erasure(store.admin, token: [UInt8](Self.token.utf8), batch: 2, pause: .zero)
        #expect(erasure.deviceKey.digest == Self.key(Self.token))

        let counts = try await erasure.count()
        #expect((counts.messages, counts.conflicts, counts.quarantine) == (7, 1, 5))
        // Of the seven 1, 4 and 7 are to be retried, 3 and 6 are dead, and so are the released conflict and the one whose
        // day has been dropped.
        #expect((counts.deliveries, counts.deadLetters, counts.deadMessages) == (3, 4, 1))
        #expect(traces(in: try dump(fixture)).count >= 6, "counting changes nothing")
        #expect(try await store.count("erasures") == 0)
        let start = try await store.text("SELECT clock_timestamp()::text") ?? ""
        #expect(try await erasure.run(by: .tester) == counts)
        // What copies elsewhere have to erase: each message, and what else they have of the device.
        #expect(
            try await store.text(
                "SELECT string_agg(message_key::text, ' ' ORDER BY message_key) FROM upstream.erasures"
            ) == keys
        )
        #expect(
            try await store.text(
                """
                SELECT concat_ws(' ', count(*) FILTER (WHERE message_key IS NULL), min(device_key::text), max(device_key::text))
                FROM upstream.erasures WHERE erased_at BETWEEN '\(start)' AND now()
                """
            ) == "1 \(Self.key(Self.token)) \(Self.key(Self.token))"
        )

        let text = try dump(fixture)
        #expect(traces(in: text) == [])
        #expect(text.contains(Self.other) && text.contains("keep"))
        #expect(try await self.kept(store) == kept)
        #expect(try await store.count("message_ids") == ledger)
        #expect(try await erasure.run(by: .tester).total == 0)
        #expect(try await erasure.count().total == 0)
        // What comes again is a duplicate, and brings nothing back.
        let again = Self.message(2, of: Self.token, at: IncomingMessage.now(), Self.payload)
        #expect(try await fixture.writer.commit([again]) == [.duplicate])
        #expect(traces(in: try dump(fixture)) == [])
    }

    private func kept(_ store: StoreFixture) async throws -> String? {
        try await store.text(
            """
            SELECT concat_ws(' ',
                (SELECT count(*) FROM upstream.messages WHERE registration_token = '\(Self.other)'),
                (SELECT count(*) FROM upstream.dead_messages WHERE registration_token = '\(Self.other)'),
                (SELECT count(*) FROM upstream.conflicts WHERE registration_token = '\(Self.other)'),
                (SELECT count(*) FROM upstream.quarantine WHERE convert_from(stanza, 'UTF8') LIKE '%\(Self.other)%'),
                (SELECT count(*) FROM upstream.deliveries AS d, upstream.message_of(d.message_key, d.received_at)
                    WHERE registration_token = '\(Self.other)'),
                (SELECT count(*) FROM upstream.dead_letters AS d, upstream.message_of(d.message_key, d.received_at)
                    WHERE registration_token = '\(Self.other)'))
            """
        )
    }

    @Test("what tells copies elsewhere to erase is kept for 30 days")
    func kept() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.erasures (device_key, message_key, erased_at)
            SELECT gen_random_uuid(), gen_random_uuid(), now() - days * interval '1 day'
            FROM unnest(ARRAY[0, 29, 31, 400]) AS days
            """
        )
        try await Retention(fixture.admin).set(.usual, by: .tester)
        #expect(try await Retention(fixture.admin, pace: .brisk).run().erasures == 2)
        #expect(try await fixture.count("erasures WHERE erased_at > now() - interval '30 days'") == 2)
        #expect(try await fixture.count("erasures") == 2)
    }

    @Test("what retention copies while the erasure runs is erased as well")
    func copied() async throws {
        let fixture = try await DeliveriesFixture()
        let store = fixture.store
        let past = IncomingMessage.now() - 50 * Self.day
        _ = try await fixture.writer.commit([Self.message(1, of: Self.token, at: past, Self.payload)])
        let failure = HandlerFailure(group: "g", detail: "d")
        _ = try await fixture.deliveries.settle(
            try await fixture.claim().map { $0.settled(.dead(failure, isCounted: true)) },
            of: "orders"
        )
        try await Retention(store.admin).set(.usual, by: .tester)
        let retention = try await PostgresConnection.open(store.settings)
        try await retention.run { connection throws(PostgresError) in
            try connection.script(
                "BEGIN; SELECT upstream.keep_dead_messages((now() AT TIME ZONE 'UTC')::date - 50, 10)"
            )
        }
        let own = try await PostgresConnection.open(store.settings)
        async let counts = Erasure(own, token: [UInt8](Self.token.utf8), pause: .zero).run(by: .tester)
        try await store.waitUntil("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
        try await retention.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        #expect(try await counts.deadMessages == 1)
        #expect(try await store.count("dead_messages") == 0)
        #expect(traces(in: try dump(fixture)) == [])
    }

    @Test(
        "what comes while the erasure runs is kept and delivered; what a worker has kept of erased messages is erased"
    )
    func meanwhile() async throws {
        let fixture = try await seed()
        let store = fixture.store
        let session = try await PostgresConnection.open(store.settings)
        try await session.run { connection throws(PostgresError) in
            try connection.script("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))")
        }
        var patient = store.settings
        patient.lockTimeout = 60_000
        let own = try await PostgresConnection.open(patient)
        async let counts = Erasure(own, token: [UInt8](Self.token.utf8), pause: .zero).run(by: .tester)
        // The days are done.
        try await store.waitUntil("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
        _ = try await fixture.writer.commit([Self.message(40, of: Self.token, at: IncomingMessage.now(), "later")])
        // As rows that were made of a worker's block just then, and an attempt that failed since.
        try await store.script(
            """
            UPDATE upstream.deliveries SET device_key = '\(Self.key(Self.token))'
            WHERE message_key IN (SELECT message_key FROM upstream.messages WHERE message_id = 'm-40');
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at, last_error)
            SELECT 'orders', i.message_key, i.received_at, now(), '\(Self.payload)' FROM upstream.message_ids AS i
            JOIN (SELECT message_key FROM upstream.erasures ORDER BY id LIMIT 2) AS gone USING (message_key);
            WITH dead AS (
                DELETE FROM upstream.deliveries WHERE message_key = (SELECT message_key FROM upstream.erasures ORDER BY id LIMIT 1)
                RETURNING *
            ), tried AS (
                INSERT INTO upstream.attempt_batches (
                    settled_at, handler, worker, outcome, first_received, last_received, keys, ages, durations, error_groups
                )
                SELECT now(), handler, 'w', 'rejected', received_at, received_at, ARRAY[message_key], '{1}', '{1}', ARRAY[last_error]
                FROM dead
            )
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group
            )
            SELECT handler, message_key, received_at, 1, now(), 1, last_error, 'g' FROM dead
            """
        )
        #expect(traces(in: try dump(fixture)).contains("ME-payload"))
        let waiting = try #require(try await fixture.count())
        try await session.run { connection throws(PostgresError) in try connection.script("COMMIT") }
        _ = try await counts
        #expect(try await store.count("messages WHERE registration_token = '\(Self.token)'") == 1)
        #expect(try await fixture.count("device_key = '\(Self.key(Self.token))'") == 1)
        #expect(try await fixture.count() == waiting - 1)
        #expect(!traces(in: try dump(fixture)).contains("ME-payload"))
        await session.close()
        await own.close()
    }

    @Test("a device's rows are counted in one pass over them, however little memory the server gives")
    func countsMany() async throws {
        let fixture = try await StoreFixture()
        let device = Self.key(Self.token)
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders');
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at)
            SELECT gen_random_uuid(), '1', 'm', 't', '\(device)', 'c', '{}', now() FROM generate_series(1, 40000);
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'orders', message_key, received_at, now() FROM upstream.messages;
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group, device_key)
            SELECT 'orders', gen_random_uuid(), now(), 1, now(), 1, 'g', '\(device)' FROM generate_series(1, 3);
            ANALYZE upstream.messages, upstream.deliveries
            """
        )
        try await fixture.setDefault("work_mem", "64kB")
        // Within a second; a comparison of each with each takes minutes.
        var settings = fixture.settings
        settings.statementTimeout = 20_000
        let connection = try await PostgresConnection.open(settings)
        let counts = try await Erasure(connection, token: [UInt8](Self.token.utf8)).count()
        #expect((counts.messages, counts.deliveries, counts.deadLetters) == (40_000, 40_000, 3))
        await connection.close()
    }

    @Test("what ANALYZE keeps holds no token and no payload, before and after")
    func statistics() async throws {
        let fixture = try await seed()
        let samples = """
            SELECT coalesce(string_agg(concat(most_common_vals::text, histogram_bounds::text), ' '), '')
            FROM pg_stats WHERE schemaname = 'upstream'
            """
        let before = try #require(try await fixture.store.text(samples))
        #expect(before.contains("com.example.orders"), "categories are sampled")
        #expect(traces(in: before) == [])
        // A partition that was made later is like the first ones.
        _ = try await fixture.writer.commit([
            Self.message(90, of: Self.token, at: IncomingMessage.now() - 50 * Self.day, Self.payload),
            Self.message(91, of: Self.token, at: IncomingMessage.now() - 50 * Self.day, Self.payload),
        ])
        try await fixture.store.script("ANALYZE")
        #expect(traces(in: try #require(try await fixture.store.text(samples))) == [])
    }

    @Test("a stanza holds a text however it is written, and not where only a part of it stands")
    func search() {
        let token = [UInt8](Self.token.utf8)
        for stanza in Self.stanzas { #expect(StanzaText.holds(token, [UInt8](stanza.utf8)), "\(stanza)") }
        for text in ["", Self.other, String(Self.token.dropLast()), "&#", "&#x;", "\\u00", "\\u12", "&nope;\\q"] {
            #expect(!StanzaText.holds(token, [UInt8](text.utf8)), "\(text)")
        }
        #expect(!StanzaText.holds([], token))
        // An address may be a part of another one.
        let address = [UInt8]("7@example.org".utf8)
        for text in [
            "<m from='7@example.org/x'/>", #"{"from":"7@example.org"}"#, "&quot;7@example.org&quot;", "7@example.org",
            "17@example.org 7@example.org.", #"\u00227@example.org\u0022"#, "<![CDATA[7@example.org]]>",
            "xmpp:7@example.org?",
        ] {
            #expect(StanzaText.holds(address, [UInt8](text.utf8)), "\(text)")
        }
        for text in [
            "<m from='17@example.org/x'/>", "7@example.org.uk", "7@example.organic", "a.7@example.org",
            "7@example.org-b.de", "é7@example.org", "7@example.orgé",
        ] {
            #expect(!StanzaText.holds(address, [UInt8](text.utf8)), "\(text)")
        }
        #expect(StanzaText.holds([UInt8]("a<b>\"é😀/".utf8), [UInt8]("a&lt;b&gt;\\\"\\u00e9\\ud83d\\uDE00\\/".utf8)))
    }
}
