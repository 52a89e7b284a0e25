import Dispatcher
import Ingest
import MessageStore
import Postgres
import Testing
import UpstreamKit
import Vocabulary

@Suite("the audit trail: every action with its entry, and no entry that can be changed")
struct AuditTests {
    /// The whole trail as lines, the oldest first.
    private func trail(_ fixture: StoreFixture) async throws -> [String] {
        let text = try await fixture.text(
            """
            SELECT string_agg(concat_ws('|', who, role, via, action, subject, count, reason), E'\\n' ORDER BY id)
            FROM upstream.audit
            """
        )
        return text?.split(separator: "\n").map(String.init) ?? []
    }

    /// Makes every entry fail, as a full disk would.
    private func breakTrail(_ fixture: StoreFixture) async throws {
        try await fixture.script("ALTER TABLE upstream.audit ADD CONSTRAINT broken CHECK (id < 0) NOT VALID")
    }

    /// 30 dead letters of the handler `orders`.
    private func dead() async throws -> DeliveriesFixture {
        let fixture = try await DeliveriesFixture()
        try await fixture.receive(1...30)
        let failure = HandlerFailure(group: "status 503", detail: "no")
        let batch = try await fixture.claim().map { $0.settled(.dead(failure, isCounted: true)) }
        #expect(try await fixture.deliveries.settle(batch, of: "orders") == 30)
        return fixture
    }

    @Test("an entry says who, by which role and way, what, to how many, and why")
    func entries() async throws {
        let fixture = try await dead()
        let states = HandlerStates(fixture.store.admin)
        _ = try await states.pause("orders", for: .seconds(9), by: .tester("moving"))
        #expect(try await states.resume("orders", by: AuditAuthor("anna", via: .console)))
        #expect(try await states.resume("unknown", by: .tester) == false)
        var filter = DeadLetterFilter()
        (filter.handler, filter.group) = ("orders", "status 503")
        let retry = BulkAction(.dead(.retry, filter), total: 30, by: .tester, batch: 12)
        #expect(try await retry.run(over: fixture.store.admin) == 30)
        try await Retention(fixture.store.admin).set(.usual, by: .tester)
        let start = "tester@test|upstream|command|"
        #expect(
            try await trail(fixture.store) == [
                start + "handlers.pause|handler orders|moving", "anna|upstream|console|handlers.resume|handler orders",
                start + "dead.retry|dead letters, handler orders, group 'status 503'|30",
                start + "dead.retry.finished|dead letters, handler orders, group 'status 503'|30",
                start + "partitions.policy|messages 30d, dedupe_window 35d, dead_letters 90d, attempts 7d",
            ]
        )
    }

    @Test("a run of several transactions says at its end how many it was; one of a single transaction has one entry")
    func ends() async throws {
        let fixture = try await dead()
        let letters = DeadLetters(fixture.store.admin)
        var discard = BulkAction(.dead(.discard, DeadLetterFilter()), total: 31, by: .tester, batch: 20)
        #expect(try await discard.run(over: fixture.store.admin) == 30)
        let counts = try await trail(fixture.store).map { $0.split(separator: "|").dropFirst(3).joined(separator: "|") }
        #expect(counts == ["dead.discard|dead letters|31", "dead.discard.finished|dead letters|30"])
        // Nothing is left: nothing is recorded.
        #expect(try await letters.discard(DeadLetterFilter(), by: .tester) == 0)
        #expect(try await trail(fixture.store).count == 2)
        let single = try await dead()
        let retry = BulkAction(.dead(.retry, DeadLetterFilter()), total: 30, by: .tester, batch: 30)
        #expect(try await retry.run(over: single.store.admin) == 30)
        #expect(try await trail(single.store).count == 1)
        // Somebody else has taken the rest.
        let short = try await dead()
        discard = BulkAction(.dead(.discard, DeadLetterFilter()), total: 40, by: .tester, batch: 30)
        #expect(try await discard.run(over: short.store.admin) == 30)
        #expect(try await trail(short.store).last?.contains("dead.discard.finished|dead letters|30") == true)
    }

    @Test("an action whose entry can't be written does not happen")
    func noEntryNoAction() async throws {
        let fixture = try await dead()
        let other = IncomingMessage.make(1).copy(fingerprint: 9)
        _ = try await fixture.writer.commit([other])
        try await breakTrail(fixture.store)
        let admin = fixture.store.admin
        let (states, letters) = (HandlerStates(admin), DeadLetters(admin))
        await #expect(throws: PostgresError.self) { try await states.pause("orders", for: nil, by: .tester) }
        await #expect(throws: PostgresError.self) { try await states.resume("orders", by: .tester) }
        await #expect(throws: PostgresError.self) { try await letters.retry(DeadLetterFilter(), by: .tester) }
        await #expect(throws: PostgresError.self) { try await letters.discard(DeadLetterFilter(), by: .tester) }
        await #expect(throws: PostgresError.self) {
            try await ConflictRelease.release(
                MessageKey(other.messageKey),
                fingerprint: other.fingerprint,
                by: .tester,
                admin
            )
        }
        await #expect(throws: PostgresError.self) { try await Retention(admin).set(.usual, by: .tester) }
        await #expect(throws: PostgresError.self) {
            try await Erasure(admin, token: [UInt8]("token-SECRET".utf8)).run(by: .tester)
        }
        let step = Migration(fileName: "9999_next.sql", text: "-- migrate:up\nSELECT 1;\n-- migrate:down\nSELECT 1;")
        await #expect(throws: MigrationError.self) {
            try await Migrator(Migration.embedded + [step], by: .tester).up(admin)
        }
        try await fixture.store.script("UPDATE upstream.handlers SET seen_at = now() - interval '3 minutes'")
        await #expect(throws: PostgresError.self) { try await states.unsubscribe("orders", by: .tester) }
        #expect(try await trail(fixture.store).isEmpty)
        #expect(try await fixture.store.count("dead_letters") == 30)
        #expect(try await fixture.count() == 0)
        #expect(try await fixture.store.count("subscriptions") == 1)
        #expect(try await fixture.store.count("handlers WHERE NOT paused") == 1)
        #expect(try await fixture.store.count("conflicts WHERE released_at IS NULL") == 1)
        #expect(try await fixture.store.count("retention_policy") == 0)
        #expect(try await fixture.store.count("messages") == 30)
        #expect(try await Migrator().state(admin) == .current)
    }

    @Test("nobody changes an entry, the table's owner included; only what has expired goes, with the next entry")
    func appendOnly() async throws {
        let fixture = try await StoreFixture()
        let states = HandlerStates(fixture.admin)
        try await fixture.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
        _ = try await states.resume("orders", by: .tester)
        for sql in [
            "UPDATE upstream.audit SET who = 'nobody'", "DELETE FROM upstream.audit", "TRUNCATE upstream.audit",
        ] {
            let error = await #expect(throws: PostgresError.self, "\(sql)") { try await fixture.script(sql) }
            #expect(error?.message == "upstream.audit is append-only")
        }
        try await fixture.script(
            """
            INSERT INTO upstream.audit (at, who, role, via, action, subject)
            SELECT now() - interval '1 day' * (729 + n % 2 * 2), 'old', 'old', 'command', 'forget', 'x'
            FROM generate_series(1, 240) AS n
            """
        )
        _ = try await states.resume("orders", by: .tester)
        #expect(try await fixture.count("audit WHERE who = 'old'") == 240, "an entry takes none with it")
        let retention = Retention(fixture.admin)
        _ = try await retention.raise(to: .usual)
        var report = try await Retention(fixture.admin, clock: { .now + .seconds(4 * 365 * 86_400) }).run()
        #expect(report.refusal != nil && report.audit == 0, "one of the clocks is wrong")
        report = try await retention.run()
        #expect(report.audit == 120)
        #expect(try await fixture.count("audit WHERE who = 'old'") == 120)
    }

    @Test("pages go back in time, by every filter, and hold each entry once")
    func pages() async throws {
        let fixture = try await StoreFixture()
        for number in 1...25 {
            let author = AuditAuthor(number % 2 == 0 ? "anna" : "ben", via: .console, reason: "r\(number)")
            let action = number % 5 == 0 ? AuditAction.discardDead : number % 5 == 1 ? .retryDead : .forget
            try await AuditLog.record(over: fixture.admin, action, "s\(number)", count: number, by: author)
        }
        func page(_ filter: AuditFilter, _ limit: Int) async throws -> [AuditEntry] {
            try await fixture.admin.run { connection throws(PostgresError) in
                try AuditLog.page(connection, filter, limit: limit)
            }
        }
        var filter = AuditFilter()
        var found: [Int64?] = []
        while case let entries = try await page(filter, 7), !entries.isEmpty {
            found += entries.map(\.count)
            filter.before = entries.last?.id
        }
        #expect(found == (1...25).reversed().map { Optional(Int64($0)) })
        filter = AuditFilter()
        filter.action = "dead"
        #expect(try await page(filter, 99).count == 10)
        filter.action = "dead.discard"
        filter.who = "anna"
        let entries = try await page(filter, 99)
        #expect(entries.map(\.count) == [20, 10])
        #expect(entries.map(\.reason) == ["r20", "r10"] && entries.allSatisfy { $0.via == "console" })
        filter = AuditFilter()
        (filter.since, filter.until) = (entries[1].at, entries[0].at)
        #expect(try await page(filter, 99).map(\.count) == (10...19).reversed().map { Optional(Int64($0)) })
    }

    @Test("without the audit trail a command says what to do, and does nothing; migrate up begins the trail")
    func olderSchema() async throws {
        let fixture = try await StoreFixture(migrated: false)
        _ = try await Migrator(Migration.embedded.filter { $0.version < "0105" }, by: .tester).up(fixture.admin)
        try await fixture.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
        let states = HandlerStates(fixture.admin)
        let error = await #expect(throws: PostgresError.self) {
            try await states.pause("orders", for: nil, by: .tester)
        }
        #expect(error?.message.contains("migrate up") == true)
        #expect(try await fixture.count("handlers WHERE paused") == 0)
        let steps = Migration.embedded.filter { $0.version <= "0105" }
        #expect(try await Migrator(steps, by: .tester("release 3")).up(fixture.admin) == ["0105"])
        #expect(
            try await trail(fixture) == ["tester@test|upstream|command|migrate.up|migration 0105 console|release 3"]
        )
    }
}
