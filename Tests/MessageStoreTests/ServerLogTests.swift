import Foundation
import Ingest
import LocalDatabase
import MessageStore
import Postgres
import Testing
import Vocabulary

@Suite("what the server's log says of failures")
struct ServerLogTests {
    /// G9: whatever fails, PostgreSQL's log at its default settings quotes neither token nor payload nor id.
    @Test("failures put nothing of a message into the server's log")
    func failuresQuoteNothingInTheServersLog() async throws {
        let fixture = try await StoreFixture()
        // What any role may set: PostgreSQL then adds the parameters to the errors that it logs, and plans that hold them.
        try await fixture.setDefault("log_parameter_max_length_on_error", "-1")
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
        _ = try await store.commit([
            .make(5, data: "{\"PAYLOAD-SECRET\": 1}", token: "TOKEN-SECRET", receivedAt: 1_000_000_000_000_000)
        ])
        // Alone, for a sender that is known by now.
        for message in bad {
            let error = await #expect(throws: StoreError.self) { try await store.commit([message]) }
            #expect(error?.kind == .refused)
        }
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
