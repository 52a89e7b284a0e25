import Dispatcher
import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

/// G1 where a trigger or rule of the site's takes rows away: nothing is acked of which less was stored than there is.
@Suite("rows that a trigger or rule drops")
struct MissingRowsTests {
    enum Way: CaseIterable, Sendable {
        case trigger, rule, redirection

        func make(on relation: String) -> String {
            switch self {
            case .trigger:
                """
                CREATE FUNCTION public.drop_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                CREATE TRIGGER site_filter BEFORE INSERT ON upstream.\(relation)
                FOR EACH ROW EXECUTE FUNCTION public.drop_row()
                """
            case .rule: "CREATE RULE site_filter AS ON INSERT TO upstream.\(relation) DO INSTEAD NOTHING"
            case .redirection:
                """
                CREATE TABLE public.elsewhere (LIKE upstream.\(relation));
                CREATE RULE site_filter AS ON INSERT TO upstream.\(relation)
                DO INSTEAD INSERT INTO public.elsewhere VALUES (new.*)
                """
            }
        }

        /// What PostgreSQL calls it.
        var kind: String { self == .trigger ? "trigger" : "rule" }

        func drop(on relation: String) -> String { "DROP \(kind) site_filter ON upstream.\(relation)" }
    }

    /// A way to an ack, and a table that it relies on.
    struct Path: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var relation: String
        var batch: [IncomingMessage]
        var outcomes: [StoreOutcome]
        var isSubscribed = false
    }

    private static let known = IncomingMessage.make(1)

    static let paths: [Path] =
        ["message_ids", "messages"].flatMap { relation in
            [
                Path(testDescription: "alone, \(relation)", relation: relation, batch: [.make(2)], outcomes: [.stored]),
                Path(
                    testDescription: "batch, \(relation)",
                    relation: relation,
                    batch: [.make(2), .make(3)],
                    outcomes: [.stored, .stored]
                ),
                Path(
                    testDescription: "batch with a known id, \(relation)",
                    relation: relation,
                    batch: [known.copy(), .make(2), .make(3)],
                    outcomes: [.duplicate, .stored, .stored]
                ),
            ]
        } + [
            Path(
                testDescription: "conflict",
                relation: "conflicts",
                batch: [known.copy(fingerprint: 2), known.copy(fingerprint: 3)],
                outcomes: [.conflict, .conflict]
            ),
            Path(
                testDescription: "quarantine",
                relation: "quarantine",
                batch: [.make(2, quarantine: .duplicateKey), .make(3, quarantine: .duplicateKey)],
                outcomes: [.quarantined, .quarantined]
            ),
            Path(
                testDescription: "delivery",
                relation: "deliveries",
                batch: [.make(2), .make(3)],
                outcomes: [.stored, .stored],
                isSubscribed: true
            ),
        ]

    private func fixture(_ path: Path) async throws -> StoreFixture {
        let fixture = try await StoreFixture()
        // Its sender is known, too.
        #expect(try await fixture.store().commit([Self.known]) == [.stored])
        if path.isSubscribed {
            try await fixture.script(
                """
                INSERT INTO upstream.handlers (name) VALUES ('all');
                INSERT INTO upstream.subscriptions VALUES ('all', '*'), ('all', 'com.example.orders')
                """
            )
        }
        return fixture
    }

    /// A store that meets a trigger or rule, and goes on in the same session when that is gone.
    private func expectHeld(_ path: Path, _ way: Way, _ fixture: StoreFixture, _ store: MessageStore) async throws {
        try await fixture.script(way.make(on: path.relation))
        for isRetry in [false, true] {
            let error = await #expect(throws: StoreError.self) {
                try await store.commit(path.batch, isRetry: isRetry)
            }
            #expect(error?.kind == .unavailable && error?.sqlState == "UW002")
            let cause = "\(way.kind) site_filter on upstream.\(path.relation)"
            #expect(error?.message.contains(cause) == true, "\(error?.message ?? "")")
        }
        try await fixture.script(way.drop(on: path.relation))
        // What a statement with nothing to do was planned as would be kept: a retry makes it anew, at once.
        #expect(try await store.commit(path.batch, isRetry: true) == path.outcomes)
        #expect(try await retried(store, [.make(8), .make(9)]) == [.stored, .stored])
        #expect(try await store.commit([.make(10), .make(11)]) == [.stored, .stored])
        #expect(try await store.commit([.make(12)]) == [.stored])
        let stored = path.outcomes.count { $0 == .stored }
        #expect(try await fixture.count("messages") == Int64(stored + 6))
        #expect(try await fixture.count("message_ids") == Int64(stored + 6))
        for (table, outcome) in [("conflicts", StoreOutcome.conflict), ("quarantine", .quarantined)] {
            #expect(try await fixture.count(table) == Int64(path.outcomes.count { $0 == outcome }))
        }
        #expect(try await fixture.count("deliveries") == (path.isSubscribed ? 7 : 0))
    }

    /// Commits as ingest does, at the second try at the latest.
    private func retried(_ store: MessageStore, _ batch: [IncomingMessage]) async throws -> [StoreOutcome] {
        do { return try await store.commit(batch) } catch { return try await store.commit(batch, isRetry: true) }
    }

    @Test("nothing is acked, the error names it, and all is stored once it is gone", arguments: paths, Way.allCases)
    func held(path: Path, way: Way) async throws {
        let fixture = try await fixture(path)
        try await expectHeld(path, way, fixture, fixture.store())
    }

    @Test("behind a pooler, where sessions last, as well", arguments: paths)
    func pooled(path: Path) async throws {
        let fixture = try await fixture(path)
        let pooler = try Pgbouncer(before: SharedCluster.cluster)
        defer { pooler.stop() }
        let settings = try pooler.settings(fixture)
        #expect(try await pooler.connect(settings).isPooled)
        let store = MessageStore(settings, senders: StoreFixture.senders)
        #expect(try await store.commit([Self.known.copy()]) == [.duplicate])
        try await expectHeld(path, .rule, fixture, store)
    }

    @Test("a block of deliveries that is dropped is missed, and one that a worker holds is not")
    func blocks() async throws {
        let fixture = try await DeliveriesFixture()
        var offer = LeaseOffer(
            handlers: ["orders"],
            local: ["orders"],
            owner: "a",
            token: fixture.token,
            duration: .seconds(60)
        )
        offer.packed = ["orders"]
        offer.block = 1
        #expect(try await fixture.writer.commit([.make(1), .make(2)], leasing: offer, isRetry: false).count == 2)
        try await fixture.store.script(Way.trigger.make(on: "delivery_blocks"))
        offer.block = 2
        let error = await #expect(throws: StoreError.self) {
            try await fixture.writer.commit([.make(3), .make(4)], leasing: offer, isRetry: false)
        }
        #expect(error?.message.contains("trigger site_filter on upstream.delivery_blocks") == true)
        #expect(try await fixture.store.count("messages") == 2)
    }

    @Test("a trigger on one day is named once, by its partition, and one that is off is not")
    func partition() async throws {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            \(Way.trigger.make(on: "messages"));
            ALTER TABLE upstream.messages DISABLE TRIGGER site_filter;
            DO $$ BEGIN
                EXECUTE (
                    SELECT format(
                        'CREATE TRIGGER today BEFORE INSERT ON upstream.%I FOR EACH ROW EXECUTE FUNCTION public.drop_row()',
                        relname)
                    FROM upstream.partitions() WHERE now() >= since AND now() < until
                );
            END $$
            """
        )
        let error = await #expect(throws: StoreError.self) { try await fixture.store().commit([.make(1), .make(2)]) }
        let message = try #require(error?.message)
        #expect(message.hasPrefix("2 of 2 rows were not stored in upstream.messages, and nothing is acked:"))
        #expect(message.contains("drop or change trigger today on upstream.messages_2"), "\(message)")
        #expect(!message.contains("site_filter"))
        #expect(try await fixture.count("message_ids") == 0)
    }
}
