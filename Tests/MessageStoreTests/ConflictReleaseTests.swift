import Dispatcher
import Handlers
import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@Suite("a conflict that is released reaches the handlers once, with its own content", .timeLimit(.minutes(10)))
struct ConflictReleaseTests {
    /// A stored message, handled already, and a conflict with it.
    private func fixture(_ handlers: [HandlerRegistration]) async throws -> (DeliveriesFixture, MessageKey) {
        let fixture = try await DeliveriesFixture(handlers)
        let first = IncomingMessage.make(1, data: #"{"item":"tea"}"#)
        var other = IncomingMessage.make(1, data: #"{"item":"coffee"}"#, token: "token-other", fingerprint: 2)
        other.receivedAt = first.receivedAt + 5
        #expect(try await fixture.writer.commit([first]) == [.stored])
        #expect(try await fixture.writer.commit([other]) == [.conflict])
        try await fixture.store.script("DELETE FROM upstream.deliveries")
        return (fixture, MessageKey(first.messageKey))
    }

    private let print = Digest128(high: 0, low: 2)

    @Test("every subscribed handler gets it under its release key; releasing again changes nothing")
    func released() async throws {
        let (fixture, key) = try await fixture([.make("a"), .make("b", ["com.example.orders"]), .make("c", ["other"])])
        let admin = fixture.store.admin
        #expect(
            try await ConflictRelease.release(key, fingerprint: print, by: .tester, admin) == .released(["a", "b"])
        )
        let delivery = try #require(try await fixture.claim(.make("a")).first)
        guard case .stored(let message) = delivery.content else {
            Issue.record("no message")
            return
        }
        #expect(message.data.map { String(decoding: $0, as: UTF8.self) } == #"{"item":"coffee"}"#)
        #expect(message.registrationToken.rawValue == "token-other" && message.messageID == "m-1")
        #expect(message.messageKey != key && message.messageKey.digest == delivery.messageKey)
        let expected = try await fixture.store.text(
            "SELECT upstream.release_key(message_key, fingerprint)::text FROM upstream.conflicts"
        )
        #expect(message.messageKey.description == expected)
        #expect(try await fixture.deliveries.settle([delivery.settled(.done)], of: "a") == 1)
        guard case .releasedBefore = try await ConflictRelease.release(key, fingerprint: print, by: .tester, admin)
        else {
            Issue.record("released twice")
            return
        }
        #expect(try await fixture.count("handler = 'a'") == 0)
        #expect(try await fixture.count("handler = 'b'") == 1)
        // The books are as they were, and the conflict says what happened to it.
        #expect(try await fixture.store.count("messages") == 1)
        #expect(try await fixture.store.count("message_ids") == 1)
        #expect(
            try await fixture.store.integer(
                "SELECT count(*) FROM upstream.conflicts WHERE released_at IS NOT NULL AND released_by = 'upstream'"
            ) == 1
        )
        // Further copies are counted as before.
        var copy = IncomingMessage.make(1, data: #"{"item":"coffee"}"#, token: "token-other", fingerprint: 2)
        copy.receivedAt += 60_000_000
        #expect(try await fixture.writer.commit([copy]) == [.conflict])
        #expect(try await fixture.store.integer("SELECT times_seen FROM upstream.conflicts") == 2)
    }

    @Test("a SQL function gets the conflict's row")
    func function() async throws {
        let (fixture, key) = try await fixture([.make("h")])
        try await fixture.store.script(
            """
            CREATE SCHEMA app;
            CREATE TABLE app.seen (message_key uuid, item text);
            CREATE FUNCTION app.take(message upstream.messages) RETURNS void LANGUAGE sql AS
                $$ INSERT INTO app.seen VALUES (message.message_key, message.data->>'item') $$
            """
        )
        #expect(
            try await ConflictRelease.release(key, fingerprint: print, by: .tester, fixture.store.admin)
                == .released(["h"])
        )
        let delivery = try #require(try await fixture.claim(.make("h")).first)
        guard case .stored(let message) = delivery.content else {
            Issue.record("no message")
            return
        }
        let caller = FunctionCaller(fixture.store.settings)
        let function = try #require(SQLFunction("app.take"))
        let end = await caller.call(function, handler: "h", message, token: delivery.lease.token)
        await caller.close()
        guard case .settled = end else {
            Issue.record("not settled: \(end)")
            return
        }
        #expect(try await fixture.store.text("SELECT item FROM app.seen") == "coffee")
        #expect(try await fixture.count() == 0)
    }

    @Test("without a handler for its category, or without a conflict, nothing changes")
    func refusals() async throws {
        let (fixture, key) = try await fixture([.make("c", ["other"])])
        let admin = fixture.store.admin
        #expect(try await ConflictRelease.release(key, fingerprint: print, by: .tester, admin) == .noHandler)
        #expect(
            try await ConflictRelease.release(key, fingerprint: Digest128(high: 0, low: 9), by: .tester, admin)
                == .unknown
        )
        #expect(
            try await fixture.store.integer("SELECT count(*) FROM upstream.conflicts WHERE released_at IS NULL") == 1
        )
        #expect(try await fixture.count() == 0)
    }

    @Test("a dead letter of it is listed with its category, and can be retried")
    func deadLetter() async throws {
        let (fixture, key) = try await fixture([.make("h")])
        #expect(
            try await ConflictRelease.release(key, fingerprint: print, by: .tester, fixture.store.admin)
                == .released(["h"])
        )
        let batch = try await fixture.claim(.make("h")).map {
            $0.settled(.dead(HandlerFailure(group: "g", detail: "d"), isCounted: true))
        }
        #expect(try await fixture.deliveries.settle(batch, of: "h") == 1)
        let letters = DeadLetters(fixture.store.admin)
        #expect(try await letters.list(DeadLetterFilter(), limit: 9).map(\.category) == ["com.example.orders"])
        #expect(try await letters.retry(DeadLetterFilter(), by: .tester) == 1)
        guard case .stored? = try await fixture.claim(.make("h")).first?.content else {
            Issue.record("no message")
            return
        }
    }

    @Test("looking a message up in both tables costs deliveries of messages nothing: the plan stops at the first")
    func plan() async throws {
        let (fixture, key) = try await fixture([.make("h")])
        let plan = try await fixture.store.admin.run { connection throws(PostgresError) in
            let result = try connection.query(
                """
                EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off)
                SELECT message.* FROM (
                    SELECT message_key AS key, received_at AS at FROM upstream.messages OFFSET 0
                ) AS leased LEFT JOIN LATERAL (
                    SELECT * FROM upstream.message_of(leased.key, leased.at) OFFSET 0
                ) AS message ON true
                """
            )
            return try result.map { row throws(PostgresError) in try row.next(String.self) }.joined(separator: "\n")
        }
        let functions = plan.split(separator: "\n").filter { $0.contains("Function Scan") }
        #expect(functions.count == 1 && functions[0].contains("on kept_message (never executed)"), "\(plan)")
        _ = key
    }
}
