import DatabaseSupport
import Postgres
import Querying
import Testing
import XMLWire
import XMPP

@testable import Replaying

@Suite("quarantined stanzas, judged again")
struct StanzaRetryTests {
    /// A database with stanzas of these ids in quarantine, and a detail.
    private static func database(_ ids: [String], detail: String = "d") async throws -> TestDatabase {
        let database = try await TestDatabase(on: SharedCluster.cluster)
        for (number, id) in ids.enumerated() {
            let json = #"{"message_id":"\#(id)","from":"FAKE-token","category":"com.example.orders"}"#
            let stanza = "<message><gcm xmlns=\"google:mobile:data\">\(json)</gcm></message>"
            try await database.script(
                """
                SELECT upstream.ensure_partitions(current_date, current_date + 1);
                INSERT INTO upstream.quarantine (
                    sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
                VALUES ('1', 'field_too_long', '\(detail)', convert_to('\(stanza)', 'UTF8'), '\\x0\(number)', 1, now(), now())
                """
            )
        }
        return database
    }

    private static func retry(
        _ database: TestDatabase,
        isDryRun: Bool = false,
        timeout: Int? = nil,
        findLimits: @escaping StanzaRetry.LimitFinder = { _ in ServerLimits() }
    ) async throws -> StanzaRetry.Report {
        var settings = database.settings
        if let timeout { settings.statementTimeout = timeout }
        let sender = StreamSettings(senderID: "1", domain: "example.org")
        let retry = StanzaRetry(settings, senders: [sender], limits: StreamLimits(), findLimits: findLimits)
        var done: [Int] = []
        let report = try await retry.run(
            QuarantineQuery(),
            total: 3,
            over: database.admin,
            by: .tester,
            isDryRun: isDryRun
        ) { done.append($0) }
        #expect(done == Array(1...max(done.count, 1)))
        return report
    }

    @Test("one that the database does not store in time stays, and the others are stored")
    func late() async throws {
        let database = try await Self.database(["q-1", "q-late", "q-3"])
        try await database.script(
            """
            CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                IF NEW.message_id = 'q-late' THEN PERFORM pg_sleep(60); END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER dawdle BEFORE INSERT ON upstream.messages FOR EACH ROW EXECUTE FUNCTION public.dawdle()
            """
        )
        let report = try await Self.retry(database, timeout: 1_000)
        #expect(report.stored == 2 && report.isShortOfTime, "\(report)")
        #expect(report.staying == ["the database did not answer in time: try it again": [2]])
        #expect(try await database.texts("SELECT message_id FROM upstream.messages ORDER BY 1") == ["q-1", "q-3"])
        let open = "SELECT id::text FROM upstream.quarantine WHERE dismissed_at IS NULL"
        #expect(try await database.texts(open) == ["2"])
    }

    @Test("one that was too large for its ack stays while its server takes none as long, which is asked once")
    func tooLarge() async throws {
        let id = String(repeating: "x", count: 4_000)
        let ids = ["\(id)1", "\(id)2"]
        let database = try await Self.database(ids, detail: UpstreamCodec.ackTooLarge.description)
        let asked = Asked()
        for isDryRun in [true, false] {
            let unknown = try await Self.retry(database, isDryRun: isDryRun) { _ in nil }
            #expect(unknown.staying == ["its server could not be asked how long an ack it takes": [1, 2]])
            var small = ServerLimits()
            small.stanza = 3_000
            let refused = try await Self.retry(database, isDryRun: isDryRun) { [small] in
                await asked.note($0)
                return small
            }
            let why = "field_too_long: \(UpstreamCodec.ackTooLarge)"
            #expect(refused.stored == 0 && refused.refused == [why: 2] && !refused.isShortOfTime, "\(refused)")
        }
        #expect(await asked.senders == [0, 0])
        #expect(try await Self.retry(database).stored == 2)
        // Nobody need be asked about any other.
        let other = try await Self.database(["q-1"])
        #expect(try await Self.retry(other) { _ in nil }.stored == 1)
    }

    private actor Asked {
        var senders: [Int] = []

        func note(_ sender: Int) { senders.append(sender) }
    }
}
