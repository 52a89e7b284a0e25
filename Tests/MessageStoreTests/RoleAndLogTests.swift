import Foundation
import MessageStore
import Pipeline
import Postgres
import Testing
import UpstreamKit

@Suite struct RoleAndLogTests {
    private static let root: URL = (0..<3).reduce(into: URL(filePath: #filePath)) { url, _ in
        url.deleteLastPathComponent()
    }

    private func addRoles(_ fixture: StoreFixture) async throws {
        let roles = try String(contentsOf: Self.root.appending(path: "deploy/roles.sql"), encoding: .utf8)
        // Roles belong to the whole cluster, and tests run side by side.
        try await fixture.script("BEGIN; SELECT pg_advisory_xact_lock(1); \(roles); COMMIT")
        try await fixture.script("BEGIN; SELECT pg_advisory_xact_lock(1); \(roles); COMMIT")
        try await fixture.script(
            """
            DO $$ BEGIN
                PERFORM pg_advisory_xact_lock(1);
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'w') THEN CREATE ROLE w LOGIN IN ROLE upstream_worker; END IF;
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'r') THEN CREATE ROLE r LOGIN IN ROLE upstream_reader; END IF;
            END $$
            """
        )
    }

    @Test func theWorkersRoleSufficesAndCanDoNoMore() async throws {
        let fixture = try await StoreFixture()
        try await addRoles(fixture)
        let settings = try PostgresSettings(url: fixture.url.replacingOccurrences(of: "user=upstream", with: "user=w"))
        let store = MessageStore(settings, senders: StoreFixture.senders)
        let first = IncomingMessage.make(1)
        let far = IncomingMessage.make(2, receivedAt: 50_000 * 86_400_000_000)
        let batch = [first, first.copy(), first.copy(fingerprint: 3), far, .make(3, quarantine: .duplicateKey)]
        #expect(try await store.commit(batch) == [.stored, .duplicate, .conflict, .stored, .quarantined])
        let worker = try await PostgresConnection.open(settings)
        #expect(try await StoreHealth.check(worker) == .ready)
        let forbidden = [
            "DELETE FROM upstream.messages", "UPDATE upstream.messages SET category = 'x'",
            "DROP TABLE upstream.messages",
            "DELETE FROM upstream.message_ids", "TRUNCATE upstream.quarantine", "CREATE TABLE upstream.x ()",
        ]
        for sql in forbidden {
            let error = await #expect(throws: PostgresError.self) {
                try await worker.run { connection throws(PostgresError) in try connection.script(sql) }
            }
            #expect(error?.failureClass == .permission, "\(sql)")
        }
    }

    @Test func theReaderReadsOnly() async throws {
        let fixture = try await StoreFixture()
        try await addRoles(fixture)
        _ = try await fixture.store().commit([.make(1)])
        let settings = try PostgresSettings(url: fixture.url.replacingOccurrences(of: "user=upstream", with: "user=r"))
        let reader = try await PostgresConnection.open(settings)
        let count = try await reader.run { connection throws(PostgresError) in
            try connection.query("SELECT count(*) FROM upstream.messages").integer(0, 0)
        }
        #expect(count == 1)
        let error = await #expect(throws: PostgresError.self) {
            try await reader.run { connection throws(PostgresError) in
                try connection.script("INSERT INTO upstream.handlers (name) VALUES ('x')")
            }
        }
        #expect(error?.failureClass == .permission)
    }

    /// G9: whatever fails, PostgreSQL's log at its default settings quotes neither token nor payload nor id.
    @Test func failuresQuoteNothingInTheServersLog() async throws {
        let fixture = try await StoreFixture()
        let store = fixture.store()
        let bad: [IncomingMessage] = [
            .make(1, data: "{\"PAYLOAD-SECRET\": oops}", token: "TOKEN-SECRET"),
            .make(2, data: "{\"PAYLOAD-SECRET\": 1}", id: "ID-SECRET\u{0}", token: "TOKEN-SECRET"),
            .make(3, data: String(repeating: "[", count: 100_000), token: "TOKEN-SECRET"),
        ]
        for message in bad {
            let error = await #expect(throws: StoreError.self) { try await store.commit([message, .make(4)]) }
            #expect(error?.kind == .refused)
            #expect(error.map { !"\($0)".contains("SECRET") } ?? false)
        }
        _ = try await store.commit([.make(5, data: "{\"PAYLOAD-SECRET\": 1}", token: "TOKEN-SECRET", receivedAt: 1)])
        // A conflict that is refused, and a row that a constraint refuses.
        let known = IncomingMessage.make(7)
        _ = try await store.commit([known])
        var conflict = IncomingMessage.make(
            8,
            data: "{\"PAYLOAD-SECRET\": oops}",
            token: "TOKEN-SECRET",
            fingerprint: 9
        )
        conflict.messageKey = known.messageKey
        let refusal = await #expect(throws: StoreError.self) { try await store.commit([conflict]) }
        #expect(refusal?.kind == .refused)
        try await fixture.script("ALTER TABLE upstream.messages ADD CONSTRAINT no CHECK (category <> 'no')")
        let violation = await #expect(throws: StoreError.self) {
            try await store.commit([.make(9, data: "{\"PAYLOAD-SECRET\": 1}", token: "TOKEN-SECRET", category: "no")])
        }
        #expect(violation?.kind == .refused && violation?.sqlState == "23514")
        try await fixture.script("BEGIN; LOCK TABLE upstream.message_ids")
        var settings = fixture.settings
        settings.lockTimeout = 20
        let impatient = MessageStore(settings, senders: StoreFixture.senders)
        await #expect(throws: StoreError.self) {
            try await impatient.commit([.make(6, data: "{\"PAYLOAD-SECRET\": 1}", token: "TOKEN-SECRET")])
        }
        try await fixture.script("ROLLBACK")
        let log = try String(contentsOf: SharedCluster.cluster.logFile, encoding: .utf8)
        let hasFailure = log.contains("lock timeout")
        #expect(hasFailure)
        for secret in ["TOKEN-SECRET", "PAYLOAD-SECRET", "ID-SECRET"] {
            let isQuoted = log.contains(secret)
            #expect(!isQuoted, "the server's log holds \(secret)")
        }
    }
}
