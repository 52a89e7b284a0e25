import Digests
import Foundation
import Postgres
import Testing
import Vocabulary

/// `docs/sql.md`: every query runs, gives the known answer, and keeps to an index or to few partitions.
@Suite("the documented queries are right and quick")
struct SQLPageTests {
    /// What a query of the page must give.
    private struct Expectation: Sendable {
        /// What of its rows is compared: a list of expressions over its columns.
        var compared = "t.*"
        /// The rows, one a line, the columns with a bar between them.
        var rows: String
        /// How many partitions of `messages` its plan may read at most; where it is more than five, by an index only.
        var partitions = 0
        /// Another table that must be read by an index.
        var indexed: String?
    }

    private static let variables = [
        "token": "token-7", "device": key(of: "token-7"), "category": "com.example.orders", "message": "m-3-500",
        "handler": "billing",
    ]

    /// By name; the seed tells why.
    private static let expectations: [String: Expectation] = [
        "device-key": Expectation(compared: "device_key", rows: key(of: "token-7")),
        "latest-of-one-device": Expectation(
            compared: "category, data->>'order', now() - received_at < interval '1 hour'",
            rows: "com.example.orders|7|t",
            partitions: 20
        ),
        "latest-per-device": Expectation(
            compared: "count(*), count(DISTINCT device_key), min((data->>'order')::int), max((data->>'order')::int)",
            rows: "100|100|0|99",
            partitions: 3
        ),
        "by-message-id": Expectation(
            compared: "sender_id, category, data->>'order'",
            rows: "1234567890|com.example.orders|500",
            partitions: 20
        ),
        "payload-fields": Expectation(
            compared: "count(*), min(\"order\"::int), max(\"order\"::int), max(total)",
            rows: "20|0|95|142.5",
            partitions: 2
        ),
        "category-rates": Expectation(
            compared: "category, sum(messages), bool_and(per_second >= 0)",
            rows: "com.example.chat|600|t\ncom.example.orders|1200|t\ncom.example.rare|200|t",
            partitions: 2
        ),
        "newest-of-category": Expectation(compared: "age < interval '10 minutes'", rows: "t", partitions: 20),
        "dead-letters": Expectation(
            compared: "count(*), min(error_group), max(attempts)",
            rows: "20|status 503|20",
            partitions: 20,
            indexed: "dead_letters"
        ),
        "attempts-by-message-id": Expectation(
            compared: "handler, attempt, outcome, error_group, status, duration",
            rows: "billing|1|retry|webhook status 503|503|00:00:00.5\nbilling|2|done|00:00:00.25",
            partitions: 20
        ),
        "attempt-failures": Expectation(
            compared: "handler, outcome, error_group, attempts",
            rows: "billing|retry|webhook status 503|1"
        ),
        "workers": Expectation(
            compared: "worker, version, up > '0', alive, stopping, in_flight, received_per_second, ack_p99_seconds",
            rows: "host:1|1.0.0|t|t|f|7|12.5|0.01"
        ),
        "conflicts-by-category": Expectation(
            compared: "category, contents, copies",
            rows: "com.example.orders|300|600\ncom.example.chat|150|300\ncom.example.rare|50|100",
            indexed: "conflicts"
        ),
        "conflicts-beside-messages": Expectation(
            compared: "count(*), count(first_data), bool_and(first_data::text <> other_data::text), max(times_seen)",
            rows: "20|20|t|2",
            partitions: 20,
            indexed: "conflicts"
        ),
        "quarantine-by-reason": Expectation(
            compared: "reason, stanzas, copies",
            rows: "payload_not_json|333|999\ncategory_unusable|167|167",
            indexed: "quarantine"
        ),
        "retention-runs": Expectation(
            compared: "took, partitions_dropped, partitions_held, ids_deleted",
            rows: "00:00:04|2|0|40"
        ),
        "audit-latest": Expectation(compared: "who, action, subject, count", rows: "anna|dead.retry|dead letters|3"),
    ]

    private static func key(of token: String) -> String { Digest128(hashing: token).description }

    private func text() throws -> String {
        try String(contentsOf: TestMigrations.project.appending(path: "docs/sql.md"), encoding: .utf8)
    }

    @Test("the drawing has every table with its key and with columns that are there, and every foreign key")
    func drawing() async throws {
        let drawing = try #require(
            try text().components(separatedBy: "erDiagram\n").last?.components(separatedBy: "```")[0]
        )
        var (keys, columns, foreign, others) = (
            [String: [String]](), Set<String>(), Set<String>(), [(String, String)]()
        )
        var table = ""
        for line in drawing.split(separator: "\n") {
            let words = line.split(separator: " ").map(String.init)
            switch words.count {
            case 2 where words[1] == "{":
                table = words[0]
                keys[table] = []
            case 2, 3:
                columns.insert("\(table).\(words[1]) \(words[0])")
                if words.count == 3 { keys[table]?.append(words[1]) }
            case 5 where words[1].contains("--"): foreign.insert("\(words[0]) \(words[2]).\(words[4])")
            case 5: others.append((words[0], "\(words[2]).\(words[4]) "))
            default: #expect(line == "    }")
            }
        }
        let fixture = try await StoreFixture()
        let tables = "relnamespace = 'upstream'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
        func lines(_ sql: String) async throws -> Set<String> {
            Set((try await fixture.text(sql) ?? "").split(separator: "\n").map(String.init))
        }
        let known = try await lines(
            """
            SELECT string_agg(format('%s: %s', relname, (
                SELECT string_agg(attname, ' ' ORDER BY place) FROM pg_constraint AS k
                CROSS JOIN LATERAL unnest(k.conkey) WITH ORDINALITY AS part (number, place)
                JOIN pg_attribute ON attrelid = c.oid AND attnum = number WHERE k.conrelid = c.oid AND k.contype = 'p'
            )), E'\\n') FROM pg_class AS c WHERE \(tables)
            """
        )
        #expect(Set(keys.map { "\($0): \($1.joined(separator: " "))" }) == known)
        let there = try await lines(
            """
            SELECT string_agg(format('%s.%s %s', relname, attname, replace(
                format_type(atttypid, NULL), 'timestamp with time zone', 'timestamptz')), E'\\n')
            FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid WHERE \(tables)
            """
        )
        #expect(columns.subtracting(there) == [])
        for (from, column) in others {
            #expect(keys[from] != nil && there.contains { $0.hasPrefix(column) }, "\(from) \(column)")
        }
        let enforced = try await lines(
            """
            SELECT string_agg(format('%s %s.%s', p.relname, c.relname, attname), E'\\n')
            FROM pg_constraint AS k JOIN pg_class AS c ON c.oid = conrelid JOIN pg_class AS p ON p.oid = confrelid
            JOIN pg_attribute ON attrelid = c.oid AND attnum = ANY (conkey)
            WHERE contype = 'f' AND c.relnamespace = 'upstream'::regnamespace
            """
        )
        #expect(foreign == enforced)
    }

    /// The page's queries, by the name in their first line, with the variables filled in.
    private func page() throws -> [String: String] {
        let text = try text()
        var queries: [String: String] = [:]
        for block in text.components(separatedBy: "```sql\n").dropFirst() {
            let body = try #require(block.components(separatedBy: "\n```").first)
            let lines = body.split(separator: "\n", maxSplits: 1).map(String.init)
            var query = lines[1].trimmingCharacters(in: .whitespacesAndNewlines)
            #expect(lines[0].hasPrefix("-- ") && query.hasSuffix(";"), "\(lines[0])")
            query.removeLast()
            for (name, value) in Self.variables {
                query = query.replacingOccurrences(of: ":'\(name)'", with: "'\(value)'")
            }
            #expect(queries.updateValue(query, forKey: String(lines[0].dropFirst(3))) == nil)
        }
        return queries
    }

    /// Ten days of 2,000 messages each, message n of a day n seconds before this time of the day: of device n modulo 100;
    /// six of ten are orders, three chat, one rare; every order that 3 and not 5 divides … see `state`.
    private func seed() async throws -> StoreFixture {
        let fixture = try await StoreFixture()
        try await fixture.script(
            """
            SET statement_timeout = 0;
            SELECT upstream.ensure_partitions((now() AT TIME ZONE 'UTC')::date - 11, (now() AT TIME ZONE 'UTC')::date);
            CREATE TEMP TABLE seed AS
            SELECT
                upstream.message_key('1234567890', 'm-' || d || '-' || n) AS message_key,
                'm-' || d || '-' || n AS message_id,
                'token-' || n % 100 AS token,
                left(encode(sha256(convert_to('token-' || n % 100, 'UTF8')), 'hex'), 32)::uuid AS device_key,
                CASE WHEN n / 100 % 10 < 6 THEN 'com.example.orders' WHEN n / 100 % 10 < 9 THEN 'com.example.chat'
                    ELSE 'com.example.rare' END AS category,
                json_build_object('order', n, 'total', n * 1.5, 'state',
                    CASE WHEN n % 5 = 0 AND n / 100 % 10 < 6 THEN 'paid' ELSE 'open' END) AS data,
                now() - make_interval(days => d, secs => n) AS received_at, d, n
            FROM generate_series(0, 9) AS d, generate_series(0, 1999) AS n;
            INSERT INTO upstream.senders VALUES ('1234567890', 'sender');
            INSERT INTO upstream.message_ids SELECT message_key, md5('f' || n)::uuid, received_at FROM seed;
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, data, extra, received_at)
            SELECT message_key, '1234567890', message_id, token, device_key, category, data,
                format('{"pad":"%s"}', repeat('x', 1500)), received_at
            FROM seed;
            INSERT INTO upstream.conflicts (
                message_key, sender_id, message_id, registration_token, device_key, category, data, received_at,
                fingerprint, times_seen, last_seen_at)
            SELECT message_key, '1234567890', message_id, token, device_key, category, json_build_object('other', n),
                received_at, md5('g' || n)::uuid, 2, received_at
            FROM seed WHERE n % 4 = 0;
            INSERT INTO upstream.quarantine (
                sender_id, reason, detail, stanza, digest, times_seen, received_at, last_seen_at)
            SELECT '1234567890', CASE WHEN n % 3 = 0 THEN 'category_unusable' ELSE 'payload_not_json' END, '',
                convert_to(CASE WHEN d = 0 THEN '' ELSE d || ' ' END || '<message>' || n || '</message>', 'UTF8'),
                sha256(convert_to(d || ' ' || n, 'UTF8')), CASE WHEN n % 3 = 0 THEN 1 ELSE 3 END, received_at, received_at
            FROM seed WHERE n < 500;
            INSERT INTO upstream.dead_letters (
                handler, message_key, received_at, attempts, next_attempt_at, lease_token, last_error, error_group, died_at)
            SELECT 'billing', message_key, received_at, 20, now(), 1, 'e',
                CASE WHEN n < 300 THEN 'status 503' ELSE 'timeout' END, received_at
            FROM seed WHERE n < 400;
            INSERT INTO upstream.attempt_batches
            SELECT now() - age, 'billing', 'host:1', outcome, received_at, received_at, ARRAY[message_key], '{1}',
                ARRAY[seconds], numbers, groups
            FROM seed, (VALUES
                (interval '2 minutes', 'retry', 0.5::real, NULL::integer[], '{webhook status 503}'::text[]),
                (interval '1 minute', 'done', 0.25, ARRAY[2], NULL)
            ) AS a (age, outcome, seconds, numbers, groups)
            WHERE message_id = 'm-3-500';
            INSERT INTO upstream.workers
            VALUES (gen_random_uuid(), 'host:1', '1.0.0', '{receive}', now() - interval '1 minute', now(), false, 7,
                '[]', '{"received": 12.5, "ack_p99": 0.01}', '[]');
            INSERT INTO upstream.retention_runs VALUES
                (now() - interval '1 day', now() - interval '1 day 4 s', 'worker', 2, 0, 40, 0, 0),
                (now() - interval '8 days', now() - interval '8 days', 'worker', 1, 0, 1, 0, 0);
            INSERT INTO upstream.audit (at, who, role, via, action, subject)
            VALUES (now() - interval '8 days', 'ben', 'ben', 'command', 'forget', 'device');
            SELECT upstream.record_audit('anna', 'command', 'dead.retry', 'dead letters', 3, NULL);
            ANALYZE upstream.messages, upstream.message_ids, upstream.conflicts, upstream.quarantine,
                upstream.dead_letters
            """
        )
        return fixture
    }

    @Test("each gives the known answer by an index or from few partitions")
    func everyQuery() async throws {
        let queries = try page()
        #expect(Set(queries.keys) == Set(Self.expectations.keys))
        let fixture = try await seed()
        let empty = Set(
            try await texts(fixture, "SELECT relname::text FROM pg_class WHERE relispartition AND reltuples <= 0")
        )
        for (name, query) in queries.sorted(by: { $0.key < $1.key }) {
            guard let expected = Self.expectations[name] else { continue }
            let grouped = name == "category-rates" ? " GROUP BY category ORDER BY category" : ""
            let rows = try await texts(
                fixture,
                "SELECT concat_ws('|', \(expected.compared)) FROM (\(query)) AS t\(grouped)"
            )
            #expect(rows.joined(separator: "\n") == expected.rows, "\(name)")
            // Which of two ways to an empty day is taken does not matter.
            let scans = try await plan(fixture, query).filter { !empty.contains($0.table) }
            let partitions = Set(scans.map(\.table).filter { $0.hasPrefix("messages_") })
            #expect(partitions.count <= expected.partitions, "\(name) reads \(partitions.sorted())")
            let isByIndex = scans.allSatisfy {
                !$0.table.hasPrefix("messages_") || $0.node.contains("Index") || $0.node.contains("Bitmap")
            }
            #expect(isByIndex || partitions.count <= 5, "\(name): \(scans)")
            #expect(scans.allSatisfy { $0.table != "message_ids" || $0.node.contains("Index") }, "\(name): \(scans)")
            if let indexed = expected.indexed {
                let nodes = scans.filter { $0.table == indexed }
                let isIndexed =
                    !nodes.isEmpty && nodes.allSatisfy { $0.node.contains("Index") || $0.node.contains("Bitmap") }
                #expect(isIndexed, "\(name): \(nodes)")
            }
        }
    }

    private func texts(_ fixture: StoreFixture, _ sql: String) async throws -> [String] {
        try await fixture.admin.run { connection throws(PostgresError) in
            let result = try connection.query(sql)
            return try result.map { row throws(PostgresError) in try row.next(String?.self) ?? "" }
        }
    }

    private struct Scan: Sendable {
        var table: String
        var node: String
    }

    /// The tables that a query reads, and how.
    private func plan(_ fixture: StoreFixture, _ query: String) async throws -> [Scan] {
        let text = try #require(try await texts(fixture, "EXPLAIN (FORMAT JSON) \(query)").first)
        var scans: [Scan] = []
        func walk(_ value: Any) {
            if let list = value as? [Any] { list.forEach(walk) }
            guard let object = value as? [String: Any] else { return }
            if let table = object["Relation Name"] as? String, let node = object["Node Type"] as? String {
                scans.append(Scan(table: table, node: node))
            }
            object.values.forEach(walk)
        }
        walk(try JSONSerialization.jsonObject(with: Data(text.utf8)))
        return scans
    }
}
