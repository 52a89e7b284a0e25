import Foundation
import Postgres
import QuerySupport
import Querying
import Resources
import Testing
import UpstreamKit
import Vocabulary

extension MessageLookup {
    /// What is found, compared with whether anything is known.
    fileprivate func look(_ reference: String) async throws -> Found {
        let found = try await find(reference)
        #expect(try await isKnown(reference) == !found.details.isEmpty, "\(reference)")
        return found
    }
}

@Suite("one message with everything stored about it", .timeLimit(.minutes(10)))
struct LookupTests {
    static let uuidLike = "3f2504e0-4f89-41d3-9a0c-0305e82c3301"

    private func fixture() async throws -> QueryFixture {
        let fixture = try await QueryFixture([
            Seed(id: "a"), Seed(id: "a", sender: "2", at: 1), Seed(id: Self.uuidLike, at: 2), Seed(id: "gone", at: 3),
        ])
        try await fixture.add(
            [Seed(id: "a", token: "token-SECRET-other", data: #"{"a":2}"#, at: 10), Seed(id: "a", data: "3", at: 11)],
            into: "conflicts"
        )
        try await fixture.script(
            """
            DELETE FROM upstream.messages WHERE message_id = 'gone';
            INSERT INTO upstream.deliveries (handler, message_key, received_at, attempts, next_attempt_at, last_error)
            SELECT 'h1', message_key, received_at, 3, '2026-03-02Z', E'status 503\\x1b[31m' FROM upstream.messages
            WHERE message_id = 'a' AND sender_id = '1234567890';
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group)
            SELECT 'h2', message_key, received_at, 20, '2026-03-02Z', 7, 'timeout', 'timeout' FROM upstream.messages
            WHERE message_id = 'a' AND sender_id = '1234567890'
            """
        )
        return fixture
    }

    @Test("a message is found by key and by id, with deliveries, dead letters and conflicts; a UUID may be either")
    func find() async throws {
        let fixture = try await fixture()
        let lookup = MessageLookup(fixture.reader)
        let byID = try await lookup.look("a").details
        #expect(byID.count == 2)
        let detail = try #require(byID.first { !$0.deliveries.isEmpty })
        #expect(detail.deliveries.map(\.handler) == ["h1"] && detail.deliveries.map(\.attempts) == [3])
        #expect(detail.deadLetters.map(\.handler) == ["h2"] && detail.deadLetters.map(\.errorGroup) == ["timeout"])
        #expect(detail.conflicts.count == 2 && detail.conflicts.allSatisfy { $0.timesSeen == 2 })
        let stored = try #require(detail.stored)
        #expect(
            detail.ledger?.fingerprint == stored.shown(to: Sight(tokens: false, payloads: true)).digest(.fingerprint)
        )
        let byKey = try await lookup.look(detail.messageKey.description).details
        #expect(byKey.map(\.messageKey) == [detail.messageKey] && byKey.first?.conflicts.count == 2)
        #expect(try await lookup.look(Self.uuidLike).details.map(\.stored?.message.messageID) == [Self.uuidLike])
        #expect(try await lookup.look("' OR 1=1 --").details.isEmpty)
        #expect(try await lookup.look("00000000-0000-0000-0000-000000000000").details.isEmpty)
    }

    @Test("what is neither key nor id may be the beginning of a key, of 6 digits or more")
    func findByPrefix() async throws {
        let fixture = try await fixture()
        let lookup = MessageLookup(fixture.reader)
        let key = try #require(try await lookup.look(Self.uuidLike).details.first).messageKey.description
        for length in [6, 7, 8, 9, 10, 35] {
            let found = try await lookup.look(String(key.prefix(length))).details
            #expect(found.map(\.messageKey.description) == [key], "\(length)")
        }
        for wrong in [String(key.prefix(5)), "0" + key.prefix(9), key.prefix(8) + "x", key.prefix(9) + "-"] {
            #expect(try await lookup.look(String(wrong)).details.isEmpty, "\(wrong)")
        }
        try await fixture.script(
            """
            UPDATE upstream.message_ids
                SET message_key = overlay(message_key::text PLACING '\(key.prefix(8))' FROM 1)::uuid;
            UPDATE upstream.messages
                SET message_key = overlay(message_key::text PLACING '\(key.prefix(8))' FROM 1)::uuid
            """
        )
        #expect(try await lookup.look(String(key.prefix(8))).details.count == 4)
    }

    @Test("what one device stored under one id is read up to a bound, and what was left out is told")
    func bound() async throws {
        let big = { (number: Int) in "\"\(number)" + String(repeating: "x", count: 900_000) + "\"" }
        let fixture = try await QueryFixture([Seed(id: "many")])
        try await fixture.add((1...12).map { Seed(id: "many", data: big($0), at: Int64($0)) }, into: "conflicts")
        try await fixture.add((1...12).map { Seed(id: "hits", sender: "\($0)", data: big($0), at: Int64($0)) })
        let lookup = MessageLookup(fixture.reader)
        let detail = try #require(try await lookup.look("many").details.first)
        #expect(detail.conflicts.count == 3 && detail.hasMoreConflicts)
        #expect(
            detail.json().suffix(24) == Array(#"],"more_conflicts":true}"#.utf8)
        )
        let few = try #require(try await lookup.detail(detail.messageKey, conflictBytes: 0))
        #expect(few.conflicts.count == 1 && few.hasMoreConflicts)
        let hits = try await lookup.look("hits")
        #expect(hits.details.count == 3 && hits.isCut)
        try await fixture.script(
            "INSERT INTO upstream.dead_messages SELECT * FROM upstream.messages; DELETE FROM upstream.messages"
        )
        let kept = try await lookup.look("hits")
        #expect(kept.details.count == 3 && kept.isCut)
    }

    @Test("the ledger still knows a message whose day was dropped")
    func bodyGone() async throws {
        let fixture = try await fixture()
        let key = try #require(
            try await fixture.text(
                "SELECT message_key::text FROM upstream.message_ids EXCEPT SELECT message_key::text FROM upstream.messages"
            )
        )
        let detail = try #require(try await MessageLookup(fixture.reader).look(key).details.first)
        #expect(detail.stored == nil && detail.ledger != nil)
        let object = try #require(
            try JSONSerialization.jsonObject(with: Data(detail.json()))
                as? [String: Any]
        )
        #expect(object["message_key"] as? String == key && object["message_id"] == nil && object["ledger"] != nil)
    }

    @Test("a message that is kept for its dead letter is found once, by key and by id")
    func kept() async throws {
        let fixture = try await fixture()
        let key = try #require(
            try await fixture.text(
                "SELECT message_key::text FROM upstream.dead_letters JOIN upstream.messages USING (message_key)"
            )
        )
        try await fixture.script(
            "INSERT INTO upstream.dead_messages SELECT * FROM upstream.messages WHERE message_key = '\(key)'"
        )
        let lookup = MessageLookup(fixture.reader)
        #expect(try await lookup.look("a").details.count == 2)
        try await fixture.script("DELETE FROM upstream.messages WHERE message_key = '\(key)'")
        let byKey = try #require(try await lookup.look(key).details.first)
        #expect(byKey.stored?.message.messageID == "a" && byKey.deadLetters.count == 1)
        #expect(try await lookup.look("a").details.contains { $0.messageKey == byKey.messageKey && $0.stored != nil })
    }

    @Test("its JSON holds everything, and a token only if requested")
    func json() async throws {
        let fixture = try await fixture()
        let found = try await MessageLookup(fixture.reader).look("a").details
        let detail = try #require(found.first { !$0.deliveries.isEmpty })
        let sight = Sight(tokens: true, payloads: true)
        let bytes = detail.content(to: sight).json(isForTerminal: true)
        #expect(String(decoding: bytes, as: UTF8.self).unicodeScalars.allSatisfy { !Danger.isDangerous($0) })
        let object = try #require(try JSONSerialization.jsonObject(with: Data(bytes)) as? [String: Any])
        #expect(object["registration_token"] as? String == "token-SECRET-a")
        let deliveries = try #require(object["deliveries"] as? [[String: Any]])
        #expect(deliveries[0]["error"] as? String == "status 503\u{1B}[31m")
        #expect((object["dead_letters"] as? [[String: Any]])?.first?["handler"] as? String == "h2")
        let conflicts = try #require(object["conflicts"] as? [[String: Any]])
        #expect(Set(conflicts.compactMap { $0["fingerprint"] as? String }).count == 2)
        #expect(conflicts.allSatisfy { $0["times_seen"] as? Int == 2 && $0["release_key"] is String })
        let masked = detail.content(to: Sight(tokens: false, payloads: true)).json()
        #expect(!String(decoding: masked, as: UTF8.self).contains("SECRET"))
    }

    @Test("the release key of a conflict, which dead letters name, finds the conflict's content")
    func releaseKey() async throws {
        let fixture = try await fixture()
        let conflict = try #require(
            try await ConflictQuery(filter: MessageFilter(), limit: 1).rows(fixture.reader).first
        )
        let lookup = MessageLookup(fixture.reader)
        #expect(try await lookup.look(conflict.releaseKey.description).details.isEmpty)
        try await fixture.script("UPDATE upstream.conflicts SET released_at = now(), released_by = 'somebody'")
        let detail = try #require(try await lookup.look(conflict.releaseKey.description).details.first)
        #expect(detail.conflictsWith == conflict.copy.message.messageKey)
        let stored = try #require(detail.stored)
        #expect(stored.message.messageKey == conflict.releaseKey && stored.message.data == conflict.copy.message.data)
    }

    @Test("conflicts can be filtered, and pages repeat and lose none")
    func conflicts() async throws {
        let fixture = try await fixture()
        let seeds = (0..<9).map { Seed(id: "m", category: "c\($0 % 2)", data: "\($0)", at: 100 + Int64($0 / 3)) }
        try await fixture.add(seeds, into: "conflicts")
        var filter = MessageFilter()
        filter.categories = ["c1"]
        #expect(try await ConflictQuery(filter: filter, limit: 50).rows(fixture.reader).count == 4)
        filter = MessageFilter()
        filter.clauses = [try WhereClause(parsing: "data>=5")]
        #expect(try await ConflictQuery(filter: filter, limit: 50).rows(fixture.reader).count == 4)
        var query = ConflictQuery(filter: MessageFilter(), limit: 4)
        var found: [Digest128] = []
        while true {
            let rows = try await query.rows(fixture.reader)
            found += rows.map(\.fingerprint)
            guard let last = rows.last else { break }
            query.cursor = ConflictCursor(last.cursor.description)
            #expect(query.cursor == last.cursor)
        }
        #expect(found.count == 11 && Set(found).count == 11)
        // The ledger's own fingerprint is computed by the same words.
        for row in try await ConflictQuery(filter: MessageFilter(), limit: 50).rows(fixture.reader) {
            #expect(row.shown(to: Sight(tokens: false, payloads: true)).copy.digest(.fingerprint) == row.fingerprint)
        }
    }
}

@Suite("quarantine", .timeLimit(.minutes(10)))
struct QuarantineTests {
    @Test("a page ends with the stanza that takes it past its bytes")
    func bytes() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.quarantine (sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1', 'duplicate_key', 'd', convert_to(lpad(n::text, 25, 'x'), 'UTF8'), int8send(n), 1, now(), now()
            FROM generate_series(1, 20) AS n
            """
        )
        var query = QuarantineQuery()
        (query.order, query.hasStanzas, query.limit, query.byteLimit) = (.oldestFirst, true, 15, 60)
        var sizes: [Int] = []
        while true {
            let page = try await query.next(fixture.reader)
            sizes.append(page.rows.count)
            if !page.isFull { break }
        }
        #expect(sizes == [3, 3, 3, 3, 3, 3, 2])
    }

    @Test("stanzas can be filtered and paged, and come byte for byte as received")
    func rows() async throws {
        let fixture = try await QueryFixture()
        try await fixture.script(
            """
            INSERT INTO upstream.quarantine (
                sender_id, message_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT 's' || n % 2, 'm' || n, CASE WHEN n % 3 = 0 THEN 'duplicate_key' ELSE 'payload_not_json' END, 'd',
                '\\x00ff1b5b' || convert_to('{"from":"SECRET' || n || '"}', 'UTF8'), int8send(n), n,
                timestamptz '2026-03-01Z' + n * interval '1 h', '2026-03-05Z'
            FROM generate_series(1, 20) AS n
            """
        )
        func ids(_ edit: (inout QuarantineQuery) -> Void) async throws -> [Int64] {
            var query = QuarantineQuery()
            edit(&query)
            let chosen = query
            return try await chosen.rows(fixture.reader).map(\.id)
        }
        #expect(try await ids { _ in } == (1...20).reversed())
        #expect(try await ids { $0.reason = "duplicate_key" } == [18, 15, 12, 9, 6, 3])
        #expect(try await ids { $0.senderID = "s0" }.count == 10)
        #expect(try await ids { $0.messageID = "m7" } == [7])
        #expect(try await ids { $0.messageID = "' OR 1=1 --" } == [])
        #expect(
            try await ids { $0.since = Timestamp(microseconds: 1_772_323_200_000_000) + .seconds(18 * 3_600) } == [
                20, 19, 18,
            ]
        )
        #expect(
            try await ids { $0.until = Timestamp(microseconds: 1_772_323_200_000_000) + .seconds(3 * 3_600) } == [2, 1]
        )
        var query = QuarantineQuery()
        query.limit = 7
        var found: [Int64] = []
        while let last = try await query.rows(fixture.reader).map({
            found.append($0.id)
            return $0.id
        }).last {
            query.cursor = last
        }
        #expect(found == (1...20).reversed())
        var one = QuarantineQuery()
        one.id = 5
        one.hasStanzas = true
        let row = try #require(try await one.rows(fixture.reader).first)
        #expect(row.stanza.bytes == [0, 0xFF, 0x1B, 0x5B] + Array(#"{"from":"SECRET5"}"#.utf8))
        let masked = String(decoding: row.json(), as: UTF8.self)
        #expect(!masked.contains("SECRET") && masked.contains("(hidden: not an XML element)"))
        let verbatim = try #require(
            try JSONSerialization.jsonObject(
                with: Data(row.shown(to: Sight(tokens: true, payloads: true)).json(isForTerminal: true))
            )
                as? [String: Any]
        )
        #expect(Data(base64Encoded: verbatim["stanza_base64"] as? String ?? "").map { [UInt8]($0) } == row.stanza.bytes)
    }
}
