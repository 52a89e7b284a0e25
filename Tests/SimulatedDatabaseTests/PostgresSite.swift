import DatabaseSupport
import Dispatcher
import Foundation
import Handlers
import Ingest
import LocalDatabase
import MessageStore
import Postgres
import Synchronization
import UpstreamKit
import Vocabulary

/// One cluster for the whole suite.
enum SharedCluster {
    static let cluster = LocalCluster.forTests("model")
}

/// The real stores over a real server, with a database of their own.
final class PostgresSite: Site {
    let start: Int64
    private let database: TestDatabase
    private let proxy: CuttingProxy
    private let settings: PostgresSettings
    private let callers = Mutex<[String: FunctionCaller]>([:])

    init() async throws {
        let cluster = SharedCluster.cluster
        database = try await TestDatabase(on: cluster)
        proxy = try CuttingProxy(to: cluster.socketFolder.appending(path: ".s.PGSQL.5432"))
        let through = database.url.replacingOccurrences(of: cluster.socketFolder.path, with: proxy.folder.path)
        var settings = try PostgresSettings(url: through)
        (settings.lockTimeout, settings.statementTimeout) = (2_000, 5_000)
        settings.applicationName = "writer"
        self.settings = settings
        start = try await database.integer("SELECT (extract(epoch FROM now()) * 1000000)::int8") ?? 0
        try await database.script(Self.functions)
    }

    deinit { proxy.close() }

    /// What the queries of ``rows(_:)`` share.
    private static let functions = """
        CREATE FUNCTION number(uuid) RETURNS text LANGUAGE sql AS
        $$ SELECT ('x' || right(replace($1::text, '-', ''), 16))::bit(64)::int8::text $$;
        CREATE TABLE effects (message_key uuid);
        CREATE FUNCTION take(message upstream.messages) RETURNS void LANGUAGE sql AS
        $$ INSERT INTO effects VALUES (message.message_key) $$;
        CREATE FUNCTION distance(timestamptz) RETURNS text LANGUAGE sql AS
        $$ SELECT coalesce((round(extract(epoch FROM $1 - clock_timestamp()) / 10) * 10)::int::text, '-') $$;
        """

    func writer(clockAhead: Duration?) -> any MessageWriter {
        let clock = clockAhead.map { ahead in
            let now = ClockReading.Moment.now
            return DatabaseClock(.init(wall: now.wall + ahead, monotonic: now.monotonic))
        }
        return MessageStore(settings, senders: ["1234567890"], clock: clock)
    }

    func deliveries(_ worker: String) -> any DeliveryStore {
        var settings = settings
        settings.applicationName = worker
        return PostgresDeliveryStore(
            settings,
            worker: worker,
            recording: AttemptRecording(worker: worker, isWanted: true)
        )
    }

    func close(_ store: any DeliveryStore) async { await (store as? PostgresDeliveryStore)?.close() }

    func call(_ worker: String, _ delivery: Delivery) async -> AttemptEnd {
        let caller = callers.withLock { callers in
            var settings = settings
            settings.applicationName = worker
            let recording = AttemptRecording(worker: worker, isWanted: true)
            let caller = callers[worker] ?? FunctionCaller(settings, recording: recording)
            callers[worker] = caller
            return caller
        }
        guard let function = SQLFunction("take"), case .stored(let message) = delivery.content else { return .lost }
        let context = HandlerContext(handler: "orders", attempt: 1, replayID: nil, deadline: .now + .seconds(60))
        return await caller.call(function, handler: "orders", [AttemptCall(delivery, message, context)]).ends[0]
    }

    func pass(_ duration: Duration) async throws {
        let columns = [
            "deliveries": ["next_attempt_at", "lease_until"], "delivery_blocks": ["lease_until"],
            "handlers": ["paused_until", "seen_at", "held_until"],
            "handler_workers": ["started_at", "alive_since", "heartbeat_at", "share_until"],
            "dead_letters": ["died_at"],
        ]
        let interval = "interval '\(duration.milliseconds) ms'"
        for (table, columns) in columns {
            let changes = columns.map { "\($0) = \($0) - \(interval)" }.joined(separator: ", ")
            try await database.script("UPDATE upstream.\(table) SET \(changes)")
        }
    }

    func happen(_ trouble: Trouble) async throws {
        let name = database.url.split(separator: "/")[1].prefix { $0 != "?" }
        switch trouble {
        case .rowsRefused(let state):
            try await database.script(
                """
                CREATE FUNCTION upstream.judge() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE 'no' USING ERRCODE = '\(state)'; END $$;
                CREATE TRIGGER judging BEFORE INSERT ON upstream.messages
                FOR EACH ROW WHEN (number(new.message_key)::int8 >= 900) EXECUTE FUNCTION upstream.judge()
                """
            )
        case .commitsFail(let state):
            try await database.script(
                """
                CREATE FUNCTION upstream.fail() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE 'no' USING ERRCODE = '\(state)'; END $$
                """
            )
            for table in ["message_ids", "conflicts", "quarantine"] {
                try await database.script(
                    """
                    CREATE CONSTRAINT TRIGGER failing AFTER INSERT OR UPDATE ON upstream.\(table)
                    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION upstream.fail()
                    """
                )
            }
        case .commitsSucceed: try await database.script("DROP FUNCTION upstream.fail CASCADE")
        case .readOnly:
            try await database.script("ALTER DATABASE \(name) SET default_transaction_read_only = on")
            try await happen(.sessionsEnd)
        case .writable: try await database.script("ALTER DATABASE \(name) RESET default_transaction_read_only")
        case .sessionsEnd:
            try await database.script(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'writer' AND datname = current_database()"
            )
        case .answerLost: proxy.cutNextReply()
        case .tooSlow:
            try await database.script(
                """
                CREATE FUNCTION upstream.slow() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(30); RETURN new; END $$;
                CREATE TRIGGER slow BEFORE INSERT ON upstream.message_ids FOR EACH ROW EXECUTE FUNCTION upstream.slow()
                """
            )
        case .fastAgain: try await database.script("DROP FUNCTION upstream.slow CASCADE")
        case .registrationsLost:
            try await database.script(
                "DELETE FROM upstream.handler_workers; DELETE FROM upstream.subscriptions; DELETE FROM upstream.handlers"
            )
        case .paused:
            try await database.script(
                "UPDATE upstream.handlers SET paused = true, paused_reason = 'operator', paused_at = now() WHERE name = 'orders'"
            )
        case .resumed:
            try await database.script(
                """
                UPDATE upstream.handlers SET paused = false, paused_reason = NULL, paused_at = NULL, held_until = NULL,
                    held_reason = NULL, resumed_at = clock_timestamp() WHERE name = 'orders'
                """
            )
        }
    }

    func holding(
        _ message: IncomingMessage,
        _ end: HoldEnd,
        _ body: @escaping @Sendable () async throws -> [String]
    ) async throws -> [String] {
        let holder = try await PostgresConnection.open(database.settings)
        func run(_ sql: String) async throws {
            try await holder.run { connection throws(PostgresError) in try connection.script(sql) }
        }
        let at = "'epoch'::timestamptz + \(message.receivedAt) * interval '1 microsecond'"
        let print = "'\(message.fingerprint)'"
        try await run(
            """
            BEGIN;
            INSERT INTO upstream.message_ids VALUES ('\(message.messageKey)', \(print), \(at));
            INSERT INTO upstream.messages (
                message_key, sender_id, message_id, registration_token, device_key, category, received_at)
            VALUES ('\(message.messageKey)', '1234567890', 'm', 'token', '\(message.deviceKey)', 'com.example.orders', \(at))
            """
        )
        async let text = body()
        if end != .never {
            try await database.waitUntil(
                "SELECT count(*) > 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            try await run(end == .commit ? "COMMIT" : "ROLLBACK")
        }
        let result = try await text
        await holder.close()
        return result
    }

    // MARK: Rows

    func rows(_ table: Table) async throws -> [String] {
        try await database.texts("SELECT text FROM (\(query(table))) AS rows (text)").sorted()
    }

    private func query(_ table: Table) -> String {
        let received = since("received_at")
        return switch table {
        case .messages:
            "SELECT concat_ws(' ', number(message_key), number(fingerprint), \(received), number(device_key)) FROM upstream.messages JOIN upstream.message_ids USING (message_key, received_at)"
        case .conflicts:
            "SELECT concat_ws(' ', number(message_key), number(fingerprint), times_seen, \(received), \(since("last_seen_at")), data) FROM upstream.conflicts"
        case .quarantine:
            "SELECT concat_ws(' ', sender_id, reason, times_seen, \(received), \(since("last_seen_at"))) FROM upstream.quarantine"
        case .handlers:
            """
            SELECT concat_ws(' ', name, paused::text, coalesce(paused_reason, '-'), distance(held_until),
                coalesce(held_reason, '-'), CASE WHEN resumed_at IS NULL THEN '-' ELSE 'resumed' END, distance(seen_at))
            FROM upstream.handlers
            """
        case .registrations:
            """
            SELECT concat_ws(' ', handler, worker, array_to_string(categories, ','), by_device::text, distance(alive_since),
                distance(heartbeat_at), dense_rank() OVER (ORDER BY token)) FROM upstream.handler_workers
            """
        case .subscriptions:
            "SELECT concat_ws(' ', handler, category, by_device::text, coalesce(jsonb_array_length(filters)::text, '-')) FROM upstream.subscriptions"
        case .deliveries:
            """
            SELECT concat_ws(' ', handler, number(message_key), \(received), attempts, crashes, coalesce(last_error, '-'),
                coalesce(lease_owner, '-'), dense_rank() OVER (ORDER BY lease_token), distance(lease_until),
                distance(next_attempt_at), coalesce(number(device_key), '-')) FROM upstream.deliveries
            """
        case .blocks:
            """
            SELECT concat_ws(' ', handler, number, lease_owner, distance(lease_until), (
                SELECT string_agg(number(key), ',' ORDER BY key) FROM unnest(keys) AS k (key)
            )) FROM upstream.delivery_blocks
            """
        case .dead_letters:
            """
            SELECT concat_ws(' ', handler, number(message_key), attempts, crashes, last_error, error_group, distance(died_at))
            FROM upstream.dead_letters
            """
        case .effects: "SELECT concat_ws(' ', number(message_key), count(*)) FROM effects GROUP BY message_key"
        }
    }

    /// The microseconds from the start to a time.
    private func since(_ column: String) -> String { "(extract(epoch FROM \(column)) * 1000000)::int8 - \(start)" }
}
