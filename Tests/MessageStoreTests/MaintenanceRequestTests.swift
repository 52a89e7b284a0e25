import Digests
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("what the console asks for: retention of a worker, erasures of the tables' owner")
struct MaintenanceRequestTests {
    private static let (token, other) = ("APA91b:erase_ME-token", "APA91b:keep_ME-token")
    private static let device = Digest128(hashing: token)
    private static let author = AuditAuthor("anna", via: .console, reason: "she asked")

    /// Two devices with a message, a delivery and a quarantined stanza each.
    private func seed() async throws -> StoreFixture {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            CREATE TEMP TABLE seed AS
            SELECT gen_random_uuid() AS key, now() AS at, token, left(encode(sha256(token::bytea), 'hex'), 32)::uuid AS device
            FROM unnest(ARRAY['\(Self.token)', '\(Self.other)']) AS token;
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at
            ) SELECT key, '1', 'm', token, device, 'c', '{}', at FROM seed;
            INSERT INTO upstream.handlers (name) VALUES ('orders');
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'orders', key, at, at FROM seed;
            INSERT INTO upstream.quarantine (sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1', 'payload_not_json', '', token::bytea, sha256(token::bytea), 1, at, at FROM seed
            """
        )
        return fixture
    }

    private func ask(
        _ fixture: StoreFixture,
        _ kind: MaintenanceRequest.Kind,
        _ device: Digest128? = nil
    ) async throws -> Int64? {
        try await fixture.admin.inTransaction { connection throws(PostgresError) in
            try MaintenanceRequests.add(connection, kind, device, count: device == nil ? nil : 2, by: Self.author)
        }
    }

    /// Does the erasure that is open.
    private func perform(_ fixture: StoreFixture) async throws -> (ErasureCounts, MaintenanceRequest.State) {
        let requests = try await MaintenanceRequests.openErasures(fixture.admin)
        let request = try #require(requests.first)
        let erasure = try await Erasure(fixture.admin, device: try #require(request.deviceKey), pause: .zero)
        return try await MaintenanceRequests.perform(request, erasure, over: fixture.admin)
    }

    private func trail(_ fixture: StoreFixture) async throws -> String? {
        try await fixture.text(
            "SELECT string_agg(concat_ws('|', who, via, action, subject, count, reason), ' ' ORDER BY id) FROM upstream.audit"
        )
    }

    @Test("a request of another kind, without who or why, or for a device that no message is of is refused")
    func refused() async throws {
        let fixture = try await seed()
        for arguments in [
            "'vacuum', NULL, 'anna', 'why'", "NULL, NULL, 'anna', 'why'", "'forget', NULL, 'anna', 'why'",
            "'retention', '\(Self.device)', 'anna', 'why'", "'retention', NULL, ' ', 'why'",
            "'retention', NULL, 'anna', ''", "'retention', NULL, 'anna', NULL",
            "'forget', gen_random_uuid(), 'anna', 'why'",
        ] {
            let error = await #expect(throws: PostgresError.self, "\(arguments)") {
                try await fixture.script("SELECT upstream.request_maintenance(\(arguments))")
            }
            #expect(error?.sqlState == "22023", "\(arguments): \(String(describing: error))")
        }
        #expect(try await fixture.count("maintenance_requests") == 0)
    }

    @Test("one that is open stands for the next, no more than 100 are, and ended ones go after 90 days")
    func bounded() async throws {
        let fixture = try await seed()
        let id = try #require(try await ask(fixture, .retention))
        #expect(try await ask(fixture, .retention) == id)
        let entry = "anna|console|partitions.request|retention|she asked"
        #expect(try await trail(fixture) == "\(entry) \(entry)")
        try await fixture.script(
            """
            INSERT INTO upstream.maintenance_requests (kind, device_key, who, reason, state, requested_at, finished_at)
            SELECT 'forget', gen_random_uuid(), 'x', 'y', CASE WHEN n > 99 THEN 'done' ELSE 'open' END, now(),
                CASE WHEN n > 99 THEN now() - interval '1 day' * (n - 20) END
            FROM generate_series(1, 119) AS n
            """
        )
        #expect(try await ask(fixture, .forget, Self.device) == nil)
        #expect(try await trail(fixture) == "\(entry) \(entry)", "what is refused is not recorded")
        // Of 20 that had ended, those of 80 to 89 days ago are left.
        #expect(try await fixture.count("maintenance_requests WHERE finished_at IS NOT NULL") == 10)
        try await fixture.script(
            "UPDATE upstream.maintenance_requests SET state = 'done', finished_at = now() WHERE id = \(id)"
        )
        #expect(try await ask(fixture, .forget, Self.device) != nil)
    }

    @Test("a worker takes a run of retention once, again if it was broken off, and ends no erasure")
    func worker() async throws {
        let fixture = try await seed()
        try await fixture.addRoles()
        let worker = try await PostgresConnection.open(try fixture.settings(as: "w"))
        #expect(try await MaintenanceRequests.takeRetention(worker) == nil)
        let erasure = try #require(try await ask(fixture, .forget, Self.device))
        #expect(try await MaintenanceRequests.takeRetention(worker) == nil)
        let id = try #require(try await ask(fixture, .retention))
        let taken = try #require(try await MaintenanceRequests.takeRetention(worker))
        #expect(taken.id == id && taken.author == Self.author)
        #expect(try await MaintenanceRequests.takeRetention(worker) == nil)
        try await fixture.script(
            "UPDATE upstream.maintenance_requests SET started_at = now() - interval '11 minutes' WHERE id = \(id)"
        )
        #expect(try await MaintenanceRequests.takeRetention(worker)?.id == id)
        for request in [id, erasure] {
            try await MaintenanceRequests.finishRetention(worker, request, .done, "1 day dropped")
        }
        #expect(try await MaintenanceRequests.takeRetention(worker) == nil)
        let states = try await MaintenanceRequests.list(fixture.admin, limit: 9).map { "\($0.id) \($0.state)" }
        #expect(states == ["\(id) done", "\(erasure) open"])
        await worker.close()
    }

    @Test("an erasure by the device's key takes that device's rows and stanzas alone, in the name of who asked")
    func erasure() async throws {
        let fixture = try await seed()
        _ = try await ask(fixture, .forget, Self.device)
        let (counts, state) = try await perform(fixture)
        #expect((counts.messages, counts.deliveries, counts.quarantine, state) == (1, 1, 1, .done))
        for table in ["messages", "deliveries", "quarantine"] {
            #expect(try await fixture.count(table) == 1, "\(table)")
        }
        #expect(try await fixture.count("messages WHERE registration_token = '\(Self.other)'") == 1)
        #expect(try await fixture.count("quarantine WHERE stanza = '\(Self.other)'") == 1)
        #expect(try await MaintenanceRequests.openErasures(fixture.admin).isEmpty)
        let request = try #require(try await MaintenanceRequests.list(fixture.admin, limit: 1).first)
        #expect(request.state == .done && request.finishedAt != nil)
        #expect(request.outcome == "messages 1, deliveries 1, quarantine 1")
        let trail = try #require(try await trail(fixture))
        #expect(trail.hasPrefix("anna|console|forget.request|device \(Self.device)|2|she asked"))
        #expect(
            trail.hasSuffix("anna|console|forget.finished|device \(Self.device), bodies: 1|3|she asked"),
            "\(trail)"
        )
    }

    @Test("broken off, it stays open, and no stanza is missed by the next run: they go before the messages")
    func brokenOff() async throws {
        let fixture = try await seed()
        _ = try await ask(fixture, .forget, Self.device)
        try await fixture.script("ALTER TABLE upstream.erasures ADD CONSTRAINT broken CHECK (message_key IS NULL)")
        await #expect(throws: PostgresError.self) { try await perform(fixture) }
        #expect(try await fixture.count("messages") == 2)
        #expect(try await fixture.count("quarantine WHERE stanza = '\(Self.token)'") == 0)
        #expect(try await MaintenanceRequests.openErasures(fixture.admin).map(\.state) == [.running])
        try await fixture.script("ALTER TABLE upstream.erasures DROP CONSTRAINT broken")
        let (counts, state) = try await perform(fixture)
        #expect((counts.messages, counts.quarantine, state) == (1, 0, .done))
        #expect(try await fixture.count("messages") == 1)
    }

    @Test(
        "broken off once the messages are gone, and with them the token, the next run knows that stanzas were searched"
    )
    func brokenOffLate() async throws {
        let fixture = try await seed()
        _ = try await ask(fixture, .forget, Self.device)
        try await fixture.script("ALTER TABLE upstream.erasures ADD CONSTRAINT broken CHECK (message_key IS NOT NULL)")
        await #expect(throws: PostgresError.self) { try await perform(fixture) }
        #expect(try await fixture.count("messages") == 1)
        try await fixture.script("ALTER TABLE upstream.erasures DROP CONSTRAINT broken")
        let (counts, state) = try await perform(fixture)
        #expect(counts.total == 0 && state == .done)
        let request = try #require(try await MaintenanceRequests.list(fixture.admin, limit: 1).first)
        #expect(
            request.state == .done && request.outcome == "nothing was left; more by another run, see the audit trail"
        )
    }

    @Test("two at once: what another has ended meanwhile stays ended, and one that is cancelled is left alone")
    func twice() async throws {
        let fixture = try await seed()
        _ = try await ask(fixture, .forget, Self.device)
        let listed = try #require(try await MaintenanceRequests.openErasures(fixture.admin).first)
        _ = try await perform(fixture)
        let ended = try #require(try await MaintenanceRequests.list(fixture.admin, limit: 1).first)
        let late = try await Erasure(fixture.admin, device: try #require(listed.deviceKey), pause: .zero)
        #expect(try await MaintenanceRequests.perform(listed, late, over: fixture.admin).state == .done)
        #expect(try await MaintenanceRequests.list(fixture.admin, limit: 1) == [ended])
        try await fixture.script("DELETE FROM upstream.maintenance_requests")
        let gone = try await MaintenanceRequests.perform(listed, late, over: fixture.admin)
        #expect(gone.counts.total == 0 && gone.state == .open)
    }

    @Test(
        "where no message tells the token, it says that stanzas were not searched, and takes another's token for none"
    )
    func unknownToken() async throws {
        let fixture = try await seed()
        _ = try await ask(fixture, .forget, Self.device)
        try await fixture.script("UPDATE upstream.messages SET registration_token = '\(Self.other)'")
        let (counts, state) = try await perform(fixture)
        #expect((counts.messages, counts.quarantine, state) == (1, 0, .failed))
        #expect(try await fixture.count("quarantine") == 2)
        let request = try #require(try await MaintenanceRequests.list(fixture.admin, limit: 1).first)
        #expect(request.state == .failed && request.outcome?.contains("the quarantine was not searched") == true)
        #expect(try await MaintenanceRequests.openErasures(fixture.admin).isEmpty)
    }
}
