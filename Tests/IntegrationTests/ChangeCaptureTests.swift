import Foundation
import IntegrationSupport
import LocalDatabase
import Testing

extension Integration {
    /// `docs/cdc.md`, followed to the letter with two servers.
    @Suite("change data capture", .timeLimit(.minutes(3))) struct ChangeCaptureTests {
        /// Two servers, a database on each, and the page between them.
        private struct Pair {
            static let token = "APA91b:FAKE-token-"
            static let published =
                "message_key, sender_id, message_id, device_key, category, data, data_raw, received_at"
            private(set) var source: Database
            private(set) var copy: Database
            /// The page's blocks of SQL, in order: publication, role, copy, subscription, after the first copy, before 15.
            let page: [String]
            /// The command that reads by wal2json.
            let commands: String

            init() async throws {
                source = try await Database(on: try Self.cluster("source", "wal_level = logical"))
                copy = try await Database(
                    on: try Self.cluster("copy", "wal_retrieve_retry_interval = 200ms"),
                    migrated: false
                )
                let page = try String(contentsOf: projectFolder.appending(path: "docs/cdc.md"), encoding: .utf8)
                func blocks(_ fence: String) -> [String] {
                    page.components(separatedBy: "\n```\(fence)\n").dropFirst().compactMap {
                        $0.components(separatedBy: "\n```").first
                    }
                }
                self.page = blocks("sql")
                commands = try #require(blocks("").first { $0.hasPrefix("pg_recvlogical") })
                try #require(self.page.count == 6)
            }

            private static func cluster(_ name: String, _ setting: String) throws -> LocalCluster {
                var options = LocalCluster.Options()
                options.fsync = false
                options.isTemporary = true
                options.configuration = [setting]
                return try LocalCluster.start(
                    in: URL(filePath: "/tmp/upstream-cdc-\(name)-\(UInt32.random(in: 0...UInt32.max))"),
                    options
                )
            }

            /// Starts both servers again, with new sessions.
            mutating func restart() throws {
                for database in [source, copy] { try database.cluster.restart() }
                (source, copy) = (try Database(source, on: source.cluster), try Database(copy, on: copy.cluster))
            }

            /// The page's subscription, to this source.
            func subscribe() async throws {
                let place = "'host=\(source.cluster.socketFolder.path) dbname=\(source.name) user=upstream_copy'"
                try await copy.script(page[3].replacing(/'host=[^']*'/, with: place))
                try await waitUntil("the first copy") {
                    try await copy.texts("SELECT string_agg(srsubstate::text, '') FROM pg_subscription_rel") == ["rr"]
                }
                try await copy.script(page[4])
            }

            /// Stores messages of ten devices, so many microseconds apart from a time on; every tenth is a receipt.
            func store(_ range: ClosedRange<Int>, at time: String = "now()") async throws {
                try await source.script(
                    """
                    INSERT INTO upstream.messages (
                        message_key, sender_id, message_id, registration_token, device_key, category, data, extra,
                        message_type, stanza_from, received_at)
                    SELECT gen_random_uuid(), '1234567890', 'm-' || n, token, left(encode(sha256(token::bytea), 'hex'), 32)::uuid,
                        'com.example.orders',
                        CASE WHEN n % 10 = 9 THEN json_build_object('device_registration_id', token)
                            ELSE json_build_object('number', n) END,
                        json_build_object('other', token)::text, CASE WHEN n % 10 = 9 THEN 'receipt' END, token,
                        \(time) + n * interval '1 microsecond'
                    FROM generate_series(\(range.lowerBound), \(range.upperBound)) AS n
                    CROSS JOIN LATERAL (SELECT '\(Self.token)' || n % 10 AS token) AS device
                    """
                )
            }

            /// The rows of a server's table, but for receipts.
            func rows(of database: Database, where condition: String = "true") async throws -> [String] {
                let own = database.name == source.name ? "message_type IS NULL" : "true"
                return try await database.texts(
                    """
                    SELECT concat_ws('|', \(Self.published)) FROM upstream.messages WHERE \(own) AND \(condition)
                    ORDER BY received_at, message_key
                    """
                )
            }

            func waitUntilEqual() async throws {
                try await waitUntil("the copy is the source") {
                    try await rows(of: copy, where: Self.isYoung) == rows(of: source, where: Self.isYoung)
                }
            }

            static let isYoung = "received_at > now() - interval '40 days'"

            /// What a dump of the copy holds.
            func dump() throws -> String {
                try run("pg_dump --dbname '\(copy.url)'")
            }

            func run(_ command: String) throws -> String {
                let shell = Process()
                shell.executableURL = URL(filePath: "/bin/bash")
                shell.arguments = ["-c", "set -e\n\(command)"]
                let output = Pipe()
                shell.standardOutput = output
                try shell.run()
                let bytes = output.fileHandleForReading.readDataToEndOfFile()
                shell.waitUntilExit()
                try #require(shell.terminationStatus == 0, "\(command)")
                return String(decoding: bytes, as: UTF8.self)
            }

            func end() {
                source.cluster.stop()
                copy.cluster.stop()
            }
        }

        @Test("the page's copy has every message and no token, over restarts, a dropped day and an erasure")
        func copy() async throws {
            var pair = try await Pair()
            var (source, copy) = (pair.source, pair.copy)
            try await source.script(
                """
                SELECT upstream.ensure_partitions(current_date - 51, current_date - 49);
                INSERT INTO upstream.retention_policy
                VALUES ('30 days', '35 days', '90 days', '7 days', 'test', now() - interval '1 day')
                """
            )
            try await pair.store(0...99)
            try await pair.store(100...119, at: "now() - interval '50 days'")
            for block in pair.page[0...1] { try await source.script(block) }
            // What a reader of the publication gets, byte by byte.
            try await source.script("SELECT pg_create_logical_replication_slot('bytes', 'pgoutput')")
            try await copy.script(pair.page[2])
            try await pair.subscribe()
            #expect(try await pair.rows(of: copy) == pair.rows(of: source))
            #expect(try await pair.rows(of: copy).count == 108)

            try await source.script("SELECT upstream.ensure_partitions(current_date + 20, current_date + 20)")
            try await pair.store(200...299, at: "now() + interval '20 days'")
            copy.cluster.kill()
            try await pair.store(300...399)
            source.cluster.kill()
            try pair.restart()
            (source, copy) = (pair.source, pair.copy)
            try await pair.store(400...499)
            try await pair.waitUntilEqual()
            #expect(try await pair.rows(of: copy).count == 378)

            let folder = try TemporaryFolder()
            let config = try folder.write("database: {url: \"\(source.url)\"}\n".utf8, as: "config.yaml")
            let dropped = try CommandRun(["partitions", "run", "--config", config])
            #expect(dropped.status == 0, "\(dropped.errors)")
            #expect(try await source.count("messages") == 400)
            #expect(try await source.count("erasures") == 0)
            let secret = try folder.write("\(Pair.token)3".utf8, as: "token")
            let forgotten = try CommandRun(["forget", "--token-file", secret, "--yes", "--config", config])
            #expect(forgotten.status == 0, "\(forgotten.errors)")
            #expect(try await source.count("erasures") == 41)
            try await pair.store(500...509)
            try await pair.waitUntilEqual()
            // Of the day that was dropped, all but the device's: it stored two then.
            #expect(try await pair.rows(of: copy, where: "NOT \(Pair.isYoung)").count == 16)
            #expect(try await pair.rows(of: copy).count == 16 + 8 * 40 + 9)

            #expect(try pair.dump().contains("com.example.orders") && !pair.dump().contains(Pair.token))
            let bytes = try await source.texts(
                """
                SELECT concat_ws(' ', bool_or(position('m-498'::bytea IN data) > 0), bool_or(position('\(Pair.token)'::bytea IN data) > 0))
                FROM pg_logical_slot_get_binary_changes('bytes', NULL, NULL, 'proto_version', '1', 'publication_names', 'upstream')
                """
            )
            #expect(bytes == ["t f"], "messages, and no token")
            pair.end()
        }

        @Test("a copy of whole tables, as before PostgreSQL 15, keeps no token; wal2json gives messages, with theirs")
        func wholeTables() async throws {
            let pair = try await Pair()
            let (source, copy) = (pair.source, pair.copy)
            try await source.script(
                """
                CREATE PUBLICATION upstream FOR TABLE upstream.messages, upstream.erasures
                    WITH (publish = 'insert', publish_via_partition_root = true)
                """
            )
            try await source.script(pair.page[1].replacing(/GRANT SELECT \([^)]*\)/, with: "GRANT SELECT"))
            // The page's commands, but for where to, and until here.
            let commands = pair.commands.replacingOccurrences(
                of: "dbname=upstream user=upstream_copy",
                with: source.url
            )
            .components(separatedBy: "\n")
            _ = try pair.run(commands[0])
            try await pair.store(0...99)
            try await copy.script(pair.page[2])
            try await copy.script(pair.page[5])
            try await pair.subscribe()
            try await pair.store(100...199)
            try await pair.waitUntilEqual()
            #expect(try await pair.rows(of: copy).count == 180)
            #expect(try pair.dump().contains("com.example.orders") && !pair.dump().contains(Pair.token))

            let end = try #require(try await source.texts("SELECT pg_current_wal_lsn()::text").first)
            let changes = try pair.run(commands.dropFirst().joined(separator: "\n") + " --endpos=\(end)")
            let inserted = changes.split(separator: "\n").filter { $0.hasPrefix(#"{"action":"I""#) }
            #expect(inserted.count == 200)
            #expect(inserted.allSatisfy { $0.contains(#""table":"messages_2"#) && $0.contains(Pair.token) })
            pair.end()
        }
    }
}
