import Diagnosis
import Foundation
import MessageStore
import Postgres
import QuerySupport
import Testing
import Vocabulary

@Suite("audit: what is missing is named", .timeLimit(.minutes(5)))
struct ConservationTests {
    /// The device of m0 and m1.
    static let token = "FAKE-token-of-one-device"

    /// A hundred messages of two days: odd ones a day after the even ones; m0 and m1 of one device.
    static let seeds = (0..<100).map { number in
        Seed(
            id: "m\(number)",
            token: number < 2 ? token : "FAKE-other",
            at: Int64(number) + (number % 2 == 1 ? 86_400_000_000 : 0)
        )
    }

    private func fixture() async throws -> QueryFixture {
        let fixture = try await QueryFixture(Self.seeds)
        try await fixture.script(
            """
            INSERT INTO upstream.retention_policy (messages, dedupe_window, dead_letters, attempts)
            VALUES ('3650 days', '3650 days', '90 days', '7 days');
            """
        )
        return fixture
    }

    private func audit(_ fixture: QueryFixture, parts: Conservation.Parts = .init()) async throws -> ConservationReport
    {
        try await Conservation(fixture.reader, parts: parts).run()
    }

    private func key(_ id: String, _ fixture: QueryFixture) async throws -> String {
        try await fixture.text("SELECT message_key::text FROM upstream.messages WHERE message_id = '\(id)'") ?? "?"
    }

    @Test("what adds up is sound, in one part and in many")
    func sound() async throws {
        let fixture = try await fixture()
        let report = try await audit(fixture)
        #expect(report.isSound && report.remarks.isEmpty, "\(report)")
        #expect(report.ledger.rows == 100 && report.ledger.bodies == 100 && report.ledger.missing == 0)
        #expect(report.result(.bodyInLedger)?.looked == 100 && report.result(.oneBody)?.looked == 100)
        var parts = Conservation.Parts()
        parts.blocks = 1
        #expect(try await audit(fixture, parts: parts).ledger == report.ledger)
    }

    @Test("a body that is deleted is named by its key")
    func lostBody() async throws {
        let fixture = try await fixture()
        let key = try await key("m7", fixture)
        try await fixture.script("DELETE FROM upstream.messages WHERE message_id = 'm7'")
        let report = try await audit(fixture)
        #expect(!report.isSound)
        #expect(report.result(.ledgerHasBody)?.wrong == 1 && report.result(.ledgerHasBody)?.examples == [key])
        #expect(report.ledger.missing == 1 && report.ledger.bodies == 99)
        #expect(report.results.filter { $0.wrong > 0 }.map(\.check) == [.ledgerHasBody])
    }

    @Test("a row of the ledger that is deleted is named by its key, and a second body too")
    func lostLedgerRow() async throws {
        let fixture = try await fixture()
        let (gone, twice) = (try await key("m3", fixture), try await key("m4", fixture))
        try await fixture.script(
            """
            DELETE FROM upstream.message_ids WHERE message_key = '\(gone)';
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, received_at)
            SELECT message_key, sender_id, message_id, registration_token, device_key, category, received_at + '1 s'::interval
            FROM upstream.messages WHERE message_key = '\(twice)';
            """
        )
        let report = try await audit(fixture)
        #expect(report.result(.bodyInLedger)?.wrong == 1 && report.result(.bodyInLedger)?.examples == [gone])
        #expect(report.result(.oneBody)?.wrong == 1 && report.result(.oneBody)?.examples == [twice])
        #expect(report.results.count { $0.wrong > 0 } == 2)
    }

    @Test("bodies that are looked up in slices of their time are each looked up once")
    func slices() async throws {
        let fixture = try await fixture()
        let gone = try await key("m48", fixture)
        try await fixture.script("DELETE FROM upstream.message_ids WHERE message_key = '\(gone)'")
        for size in [1, 7, 49, 50, 1_000] as [Int64] {
            var parts = Conservation.Parts()
            parts.bodies = size
            let (since, until) = (QueryFixture.start, QueryFixture.start + .microseconds(100))
            let report = try await Conservation(fixture.reader, since: since, until: until, parts: parts).run()
            let result = try #require(report.result(.bodyInLedger))
            #expect(result.looked == 50 && result.wrong == 1 && result.examples == [gone], "\(size): \(result)")
        }
    }

    @Test("a delivery, a block and a dead letter without their message are named")
    func orphans() async throws {
        let fixture = try await fixture()
        try await fixture.script(
            """
            INSERT INTO upstream.handlers (name) VALUES ('orders');
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            SELECT 'orders', message_key, received_at, now() FROM upstream.messages;
            INSERT INTO upstream.deliveries (handler, message_key, received_at, next_attempt_at)
            VALUES ('orders', '00000000-0000-0000-0000-0000000000d1', now(), now());
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, error_group)
            VALUES ('orders', 'ffffffff-ffff-ffff-ffff-ffffffffffd2', now(), 1, now(), 0, 'g');
            INSERT INTO upstream.delivery_blocks (token, number, handler, lease_owner, lease_until, keys, times)
            SELECT 1, 1, 'orders', 'host:1', now(), array_agg(message_key) || '00000000-0000-0000-0000-0000000000d3'::uuid,
                array_agg(received_at) || now() FROM upstream.messages;
            """
        )
        var parts = Conservation.Parts()
        for rows in [1_000, 1] as [Int64] {
            parts.queue = rows
            try await fixture.script("ANALYZE upstream.deliveries")
            let report = try await audit(fixture, parts: parts)
            for (check, looked, name) in [
                (ConservationCheck.deliveryHasMessage, 101, "00000000-0000-0000-0000-0000000000d1"),
                (.deadLetterHasMessage, 1, "ffffffff-ffff-ffff-ffff-ffffffffffd2"),
                (.blockHasMessage, 101, "00000000-0000-0000-0000-0000000000d3"),
            ] as [(ConservationCheck, Int64, String)] {
                let result = try #require(report.result(check))
                #expect(result.looked == looked && result.wrong == 1, "\(check)")
                #expect(result.examples == ["orders \(name)"], "\(check)")
            }
            #expect(report.results.count { $0.wrong > 0 } == 3)
        }
    }

    @Test("what forget has erased is not missing, and does not hide what is")
    func erased() async throws {
        let fixture = try await fixture()
        let author = AuditAuthor("someone", via: .command)
        let erasure = Erasure(fixture.admin, token: Array(Self.token.utf8))
        _ = try await erasure.run(by: author)
        var report = try await audit(fixture)
        #expect(report.isSound && report.ledger.erased == 2 && report.ledger.bodies == 98, "\(report)")
        // A second erasure finds nothing, and explains nothing.
        _ = try await erasure.run(by: author)
        let key = try await key("m8", fixture)
        try await fixture.script("DELETE FROM upstream.messages WHERE message_id = 'm8'")
        report = try await audit(fixture)
        #expect(report.ledger.missing == 1 && report.ledger.erased == 2)
        #expect(report.result(.ledgerHasBody)?.examples.contains(key) == true)
        #expect(report.remarks.count == 1, "\(report.remarks)")
    }

    @Test("what an erasure has deleted so far is not missing, batch by batch, and where it was interrupted")
    func erasing() async throws {
        let fixture = try await fixture()
        // Its end is not recorded: it fails there.
        try await fixture.script(
            """
            CREATE FUNCTION public.interrupt() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'interrupted'; END $$;
            CREATE TRIGGER interrupt BEFORE INSERT ON upstream.audit FOR EACH ROW WHEN (NEW.count = 2)
                EXECUTE FUNCTION public.interrupt()
            """
        )
        let erasure = Erasure(fixture.admin, token: Array(Self.token.utf8), batch: 1)
        await #expect(throws: PostgresError.self) { try await erasure.run(by: AuditAuthor("someone", via: .command)) }
        let report = try await audit(fixture)
        #expect(report.isSound && report.ledger.erased == 2 && report.ledger.bodies == 98, "\(report)")
        let recorded = "SELECT count(*)::text FROM upstream.audit WHERE action = 'forget' AND count = 1"
        #expect(try await fixture.text(recorded) == "2")
    }

    @Test("a time that begins inside a day does not hide a loss behind what was erased of its other hours")
    func erasedHours() async throws {
        let fixture = try await fixture()
        _ = try await Erasure(fixture.admin, token: Array(Self.token.utf8)).run(by: AuditAuthor("x", via: .command))
        try await fixture.script("DELETE FROM upstream.messages WHERE message_id = 'm8'")
        // m0 was erased, before this time.
        let report = try await Conservation(fixture.reader, since: QueryFixture.start + .microseconds(4)).run()
        #expect(report.ledger.missing == 1 && report.ledger.rows == 100, "\(report)")
        #expect(report.remarks.contains { $0.contains("looked at as a whole") }, "\(report.remarks)")
    }

    @Test("days that retention dropped explain their bodies; days that somebody else dropped do not")
    func droppedDays() async throws {
        let fixture = try await fixture()
        try await fixture.script("DROP TABLE upstream.messages_20260301")
        var report = try await audit(fixture)
        #expect(report.ledger.dropped == 50 && report.ledger.missing == 0)
        #expect(report.result(.daysDropped)?.wrong == 1 && report.result(.daysDropped)?.examples == ["2026-03-01"])
        let run = """
            INSERT INTO upstream.retention_runs (
                finished_at, started_at, partitions_dropped, partitions_held, ids_deleted, conflicts_deleted,
                quarantine_deleted)
            VALUES (now(), now(), 1, 0, 0, 0, 0);
            """
        try await fixture.script(run)
        // The policy in force keeps it, and has been in force since before it.
        try await fixture.script("UPDATE upstream.retention_policy SET set_at = '2026-01-01'")
        #expect(try await !audit(fixture).isSound)
        try await fixture.script("UPDATE upstream.retention_policy SET messages = '30 days'")
        report = try await audit(fixture)
        #expect(report.isSound && report.ledger.dropped == 50 && report.ledger.bodies == 50, "\(report)")
    }

    @Test("a message kept for its dead letters has its body there")
    func kept() async throws {
        let fixture = try await fixture()
        try await fixture.script(
            """
            INSERT INTO upstream.dead_messages SELECT * FROM upstream.messages WHERE message_id = 'm2';
            DELETE FROM upstream.messages WHERE message_id = 'm2';
            """
        )
        let report = try await audit(fixture)
        #expect(report.isSound && report.ledger.kept == 1 && report.ledger.bodies == 99)
    }

    @Test("a time narrows what is looked at")
    func times() async throws {
        let fixture = try await fixture()
        try await fixture.script("DELETE FROM upstream.messages WHERE message_id = 'm7'")
        let noon = QueryFixture.start + .seconds(43_200)
        let before = try await Conservation(fixture.reader, until: noon).run()
        #expect(before.isSound && before.ledger.rows == 50)
        let after = try await Conservation(fixture.reader, since: noon).run()
        #expect(!after.isSound && after.ledger.rows == 50 && after.result(.bodyInLedger)?.looked == 49)
    }

    @Test("acks of a file that nothing is known of are named; the quarantined and the expired are not")
    func against() async throws {
        let fixture = try await fixture()
        try await fixture.script(
            """
            INSERT INTO upstream.quarantine (
                sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            VALUES ('1234567890', 'odd', 'category_unusable', '', '', '', 1, now(), now())
            """
        )
        let now = Timestamp.now.rfc3339
        func line(_ id: String, _ time: String) -> String {
            #"{"time":"\#(time)","sender_id":"1234567890","message_id":"\#(id)"}"#
        }
        let deep = #"{"a":"# + String(repeating: "[", count: 2_000) + String(repeating: "]", count: 2_000) + "}"
        let long = String(repeating: "x", count: 5 << 20)
        let lines =
            (0..<100).map { line("m\($0)", now) } + [
                line("odd", now), line("lost", now), line("old", "2001-01-01T00:00:00Z"), "",
                #"{"message_key":"\#(try await key("m9", fixture))","data":{}}"#,
                // What a device may send beside its data, and as such.
                #"{"message_key":"\#(try await key("m9", fixture))","extra":\#(deep),"data":"\#(long)"}"#,
                line(#"a\u0000"#, now),
            ]
        let path = NSTemporaryDirectory() + "acks-\(UInt64.random(in: 0...UInt64.max)).ndjson"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(lines.joined(separator: "\n").utf8).write(to: URL(filePath: path))
        var report = ConservationReport()
        let conservation = Conservation(fixture.reader)
        try await conservation.compare(with: try AckedFile(path), &report)
        let result = try #require(report.result(.ackedIsKnown))
        #expect(result.looked == 106 && result.wrong == 1 && result.examples == ["1234567890 lost"], "\(result)")
        #expect(report.unverifiable == 2)
        // An archive's: by key, or, what belongs in quarantine, by id; without either it can't be told.
        let keys = [try await key("m9", fixture), try await key("m8", fixture)].map { Digest128(uuid: $0.utf8) }
        var archived = ConservationReport()
        try await conservation.compare(
            archived: [
                AckedMessage(key: keys[0], sender: "1234567890", id: "m9"),
                AckedMessage(key: keys[1], sender: "1234567890", id: "renamed"),
                AckedMessage(key: nil, sender: "1234567890", id: "odd"),
                AckedMessage(key: nil, sender: "1234567890", id: ""),
                AckedMessage(key: Digest128(high: 1, low: 2), sender: "1234567890", id: "lost"),
            ],
            &archived
        )
        let known = try #require(archived.result(.archivedIsKnown))
        #expect(known.looked == 4 && known.wrong == 1 && known.examples == ["1234567890 lost"], "\(known)")
        #expect(archived.unverifiable == 1 && archived.result(.ackedIsKnown) == nil)
        // What is older than bodies are kept may have been deleted from the quarantine.
        try await fixture.script("UPDATE upstream.retention_policy SET messages = '30 days'")
        let old = (Timestamp.now - .seconds(40 * 86_400)).rfc3339
        report = try await compare([line("odd", old), line("lost", old), line("m1", old), line("lost", now)], fixture)
        #expect(report.result(.ackedIsKnown)?.wrong == 1 && report.unverifiable == 1, "\(report)")
        try Data((line("m1", now) + "\n{\"text\":\"<message/>\"}\n").utf8).write(to: URL(filePath: path))
        let error = await #expect(throws: AckedFile.Failure.self) {
            try await conservation.compare(with: try AckedFile(path), &report)
        }
        #expect(error?.description.contains(":2: not a JSON object with a message_key") == true)
    }

    private func compare(_ lines: [String], _ fixture: QueryFixture) async throws -> ConservationReport {
        let path = NSTemporaryDirectory() + "acks-\(UInt64.random(in: 0...UInt64.max)).ndjson"
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data(lines.joined(separator: "\n").utf8).write(to: URL(filePath: path))
        var report = ConservationReport()
        try await Conservation(fixture.reader).compare(with: try AckedFile(path), &report)
        return report
    }

    @Test("where ids are unique for a device, its own key alone says that its message is known")
    func againstDevices() async throws {
        let fixture = try await fixture()
        func key(_ token: String) async throws -> String {
            let text = "'1234567890'::bytea || '\\x00' || '\(token)'::bytea || '\\x00' || 'x'::bytea"
            return try await fixture.text("SELECT encode(substr(sha256(\(text)), 1, 16), 'hex')::uuid::text") ?? "?"
        }
        let (mine, other) = (try await key("FAKE-mine"), try await key("FAKE-other"))
        try await fixture.script(
            """
            UPDATE upstream.senders SET id_scope = 'device';
            INSERT INTO upstream.message_ids VALUES ('\(mine)', gen_random_uuid(), now());
            """
        )
        func line(_ id: String, _ key: String?) -> String {
            let member = key.map { #","message_key_by_device":"\#($0)""# } ?? ""
            return #"{"time":"\#(Timestamp.now.rfc3339)","sender_id":"1234567890","message_id":"\#(id)"\#(member)}"#
        }
        let lines = [line("x", mine), line("x", other), line("x", nil), line("m1", nil), line("m1", other)]
        var report = try await compare(Array(lines[..<4]), fixture)
        var result = try #require(report.result(.ackedIsKnown))
        #expect(result.looked == 2 && result.wrong == 1 && result.examples == ["1234567890 x"], "\(report)")
        #expect(report.unverifiable == 2 && report.remarks.count == 1, "\(report)")
        // A sender whose messages have keys of both forms.
        try await fixture.script("INSERT INTO upstream.senders VALUES ('1234567890', 'sender')")
        report = try await compare(lines, fixture)
        result = try #require(report.result(.ackedIsKnown))
        #expect(result.looked == 3 && result.wrong == 1 && report.unverifiable == 2, "\(report)")
    }

    @Test("an archive's message is known by the key of an id_scope that its sender had before")
    func formerScope() async throws {
        let fixture = try await fixture()
        let (mine, former) = (Digest128(high: 1, low: 1), Digest128(high: 1, low: 2))
        try await fixture.script(
            "INSERT INTO upstream.message_ids VALUES ('\(former)', gen_random_uuid(), now())"
        )
        func wrong() async throws -> Int64? {
            var report = ConservationReport()
            let message = AckedMessage(key: mine, others: ["device": former], sender: "1234567890", id: "x")
            try await Conservation(fixture.reader).compare(archived: [message], &report)
            return report.result(.archivedIsKnown)?.wrong
        }
        #expect(try await wrong() == 1)
        try await fixture.script("INSERT INTO upstream.senders VALUES ('1234567890', 'device')")
        #expect(try await wrong() == 0)
    }

    @Test("without --since an archive is judged from when catching up began, and a remark says so")
    func archiveRange() async throws {
        let fixture = try await fixture()
        func range(since: Timestamp? = nil) async throws -> (since: Timestamp?, remarks: [String])? {
            var report = ConservationReport()
            let conservation = Conservation(fixture.reader, since: since)
            let range = try await conservation.range(ofArchive: "1234567890@x", of: "1234567890", &report)
            #expect(report.result(.archivedIsKnown)?.looked == 0)
            guard let range else {
                #expect(
                    report.remarks == [
                        "1234567890: its archive was never asked for anything; --since judges it all the same"
                    ]
                )
                return nil
            }
            return (range.since, report.remarks)
        }
        #expect(try await range() == nil)
        let day = Timestamp(microseconds: (Timestamp.now - .seconds(86_400)).microseconds)
        #expect(try await range(since: day)?.since == day)
        try await fixture.script(
            """
            INSERT INTO upstream.archive_points (sender_id, archive, begun_at)
            VALUES ('1234567890', '1234567890@x', '2026-01-31 12:00Z'), ('1234567890', '1234567890@y', now())
            """
        )
        let begun = try #require(try await range())
        #expect(begun.since == (try Timestamp(parsing: "2026-01-31T12:00:01Z")))
        #expect(begun.remarks.count == 1 && begun.remarks[0].contains("before 2026-01-31T12:00:01"), "\(begun)")
        #expect(try await range(since: day)?.remarks == [])
        // Older than anything is kept: nothing is left out.
        try await fixture.script("UPDATE upstream.archive_points SET begun_at = now() - interval '20 years'")
        #expect(try await range()?.remarks == [])
    }
}
