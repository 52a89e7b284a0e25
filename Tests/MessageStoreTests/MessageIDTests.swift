import Digests
import Ingest
import MessageStore
import Postgres
import Testing
import Vocabulary

/// `upstream.messages_with_id`, and what it relies on: the senders, and the index for ids of devices.
@Suite("messages are found by their ids", .timeLimit(.minutes(10)))
struct MessageIDTests {
    /// A message with the key that the codec derives: from sender and id, or from sender, token and id.
    private func message(
        _ id: String,
        sender: Int = 0,
        token: String = "token-SECRET",
        isByDevice: Bool = false,
        daysAgo: Int64 = 0
    ) -> IncomingMessage {
        let at = IncomingMessage.now() - daysAgo * 86_400_000_000
        var message = IncomingMessage.make(UInt64(id.utf8.count), id: id, token: token, receivedAt: at)
        message.sender = UInt16(sender)
        let parts = [StoreFixture.senders[sender]] + (isByDevice ? [token] : []) + [id]
        message.messageKey = Digest128(hashing: parts.joined(separator: "\0"))
        message.isKeyedByDevice = isByDevice
        message.deviceKey = Digest128(hashing: token)
        return message
    }

    /// Sender and token of every message with an id.
    private func find(_ id: String, _ fixture: StoreFixture) async throws -> String? {
        let sql: SQL = """
            SELECT string_agg(sender_id || ' ' || registration_token, ', ' ORDER BY sender_id, registration_token)
            FROM upstream.messages_with_id(\(id))
            """
        return try await fixture.admin.run { connection throws(PostgresError) in
            try connection.run(sql).first { row throws(PostgresError) in try row.next(String?.self) } ?? nil
        }
    }

    private func senders(_ fixture: StoreFixture) async throws -> String? {
        try await fixture.text(
            "SELECT string_agg(sender_id || ' ' || id_scope, ', ' ORDER BY sender_id, id_scope) FROM upstream.senders"
        )
    }

    /// The days that have an index for ids, and those that have none.
    private func days(_ fixture: StoreFixture) async throws -> String? {
        try await fixture.text(
            """
            SELECT count(x.indexrelid) || ' of ' || count(*)
            FROM upstream.partitions() AS p LEFT JOIN (
                pg_index AS x JOIN pg_inherits AS i ON i.inhrelid = x.indexrelid
                    AND i.inhparent = to_regclass('upstream.messages_message_id_idx') AND x.indisvalid
            ) ON x.indrelid = p.relation
            """
        )
    }

    @Test("of each sender that used the id, whatever the id; and of no other", arguments: [false, true])
    func bySender(isOneBatch: Bool) async throws {
        let fixture = try await StoreFixture()
        let ids = [
            "m-1", "", "' OR 1=1 --", "%", #"\x00"#, "\u{1F600}\u{202E}", String(repeating: "x", count: 4_096),
            "a\u{1}b",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        ]
        let all = ids.flatMap { [message($0), message($0, sender: 1, token: "other")] } + [message("old", daysAgo: 3)]
        let store = fixture.store()
        if isOneBatch {
            #expect(try await store.commit(all).allSatisfy { $0 == .stored })
        } else {
            for one in all { #expect(try await store.commit([one]) == [.stored]) }
        }
        #expect(try await senders(fixture) == "1234567890 sender, 987 sender")
        for id in ids {
            #expect(try await find(id, fixture) == "1234567890 token-SECRET, 987 other", "\(id.prefix(40))")
        }
        #expect(try await find("old", fixture) == "1234567890 token-SECRET")
        for id in ["m-2", "m-1 ", "M-1", "_", "1234567890\0m-1"].map({ $0.replacing("\0", with: "") }) {
            #expect(try await find(id, fixture) == nil)
        }
    }

    @Test("by keys alone: no day is read, not even the one that has the message")
    func readsNoDay() async throws {
        let fixture = try await StoreFixture()
        #expect(try await fixture.store().commit([message("m-1"), message("m-2", daysAgo: 2)]) == [.stored, .stored])
        let scans = "SELECT sum(seq_scan)::bigint FROM pg_stat_xact_user_tables WHERE relname LIKE 'messages%'"
        try await fixture.script("BEGIN")
        let before = try await fixture.integer(scans)
        for id in ["m-1", "m-2", "no"] {
            #expect(try await find(id, fixture) == (id == "no" ? nil : "1234567890 token-SECRET"))
        }
        #expect(try await fixture.integer(scans) == before)
        // What it counts is counted.
        #expect(try await fixture.count("messages") == 2)
        #expect(try await fixture.integer(scans) != before)
        try await fixture.script("COMMIT")
        #expect(try await days(fixture) == "0 of 10")
    }

    @Test("of each device that used the id, where ids are unique for a device, beside a sender's own")
    func byDevice() async throws {
        let fixture = try await StoreFixture()
        let batch = [
            message("m-1", sender: 1, token: "a", isByDevice: true),
            message("m-1", sender: 1, token: "b", isByDevice: true), message("m-1"),
            message("m-2", sender: 1, token: "b", isByDevice: true),
        ]
        #expect(try await fixture.store().commit(batch) == [.stored, .stored, .stored, .stored])
        #expect(try await senders(fixture) == "1234567890 sender, 987 device")
        #expect(try await find("m-1", fixture) == "1234567890 token-SECRET, 987 a, 987 b")
        #expect(try await find("m-2", fixture) == "987 b")
        #expect(try await find("m-3", fixture) == nil)
        // A sender that changed from one to the other has messages of both kinds.
        #expect(try await fixture.store().commit([message("m-1", sender: 1, token: "c")]) == [.stored])
        #expect(try await senders(fixture) == "1234567890 sender, 987 device, 987 sender")
        #expect(try await find("m-1", fixture) == "1234567890 token-SECRET, 987 a, 987 b, 987 c")
    }

    @Test("days get the index for ids of devices when they are made, and those with messages by migrate up")
    func filters() async throws {
        let fixture = try await StoreFixture()
        _ = try await fixture.store().commit([message("m-1")])
        _ = try await fixture.integer("SELECT upstream.ensure_partitions(current_date + 8, current_date + 8)::bigint")
        #expect(try await days(fixture) == "0 of 10")
        _ = try await fixture.store().commit([message("m-1", sender: 1, isByDevice: true)])
        _ = try await fixture.integer("SELECT upstream.ensure_partitions(current_date + 9, current_date + 9)::bigint")
        #expect(try await days(fixture) == "10 of 11")
        #expect(try await Migrator().up(fixture.admin) == [])
        #expect(try await days(fixture) == "11 of 11")
        _ = try await fixture.integer("SELECT upstream.ensure_partitions(current_date + 10, current_date + 10)::bigint")
        #expect(try await days(fixture) == "12 of 12")
        // Day by day the same kinds of indexes, each of them attached.
        let kinds = try await fixture.integer(
            """
            SELECT count(DISTINCT kinds) FROM (
                SELECT string_agg(
                    format('%s %s %s', amname, indkey, relispartition), ', ' ORDER BY amname, indkey::text) AS kinds
                FROM upstream.partitions() AS p JOIN pg_index ON indrelid = relation
                JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam GROUP BY relation
            ) AS days
            """
        )
        #expect(kinds == 1)
        #expect(try await find("m-1", fixture) == "1234567890 token-SECRET, 987 token-SECRET")
    }
}
