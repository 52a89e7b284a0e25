import Dispatcher
import Postgres
import UpstreamKit

/// A process's registration.
struct Registration: Sendable {
    /// The process's previous token; 0 for none.
    var previous: Int64
    var token: Int64
    /// Host and process id, shown to people.
    var worker: String
    var handlers: [HandlerRegistration]

    var names: [String] { handlers.map(\.name) }
    /// Whether each is ordered (one delivery of a device at a time).
    var isByDevice: [Bool] { handlers.map { $0.ordering == .device } }
    /// The filter of each; empty without one.
    var filters: [String] { handlers.map { $0.filter ?? "" } }
    /// The handler of each pair of a handler and a category.
    var askers: [String] { handlers.flatMap { handler in handler.categories.names.map { _ in handler.name } } }
    var categories: [String] { handlers.flatMap(\.categories.names) }
}

/// The handlers whose deliveries ``DeliveryStatements/backlog`` counts.
struct BacklogParameters: Sendable {
    var handlers: [String]
    /// Where counts stop.
    var limit: Int
}

/// The statements of the dispatcher.
enum DeliveryStatements {
    // MARK: Kinds

    /// The conditions on live and on replayed deliveries by which the index of claims finds them.
    static let (isLive, isReplayed) = (isOfKind("l"), isOfKind("r"))

    private static func isOfKind(_ letter: String) -> String {
        #"(CASE WHEN replay_id IS NULL THEN 'l'::"char" ELSE 'r'::"char" END) = '\#(letter)'"#
    }

    /// When the deliveries of the handler `name` were received that are due first: 1,000 of each kind.
    static let soonest = "\(firstDue(isLive)) UNION ALL \(firstDue(isReplayed))"

    private static func firstDue(_ kind: String) -> String {
        """
        (
            SELECT received_at FROM upstream.deliveries WHERE handler = name AND \(kind)
            ORDER BY next_attempt_at LIMIT 1000
        )
        """
    }

    // MARK: Handlers

    /// Registers a process; the texts of this and the next two are in `migrations/`.
    static let register: PreparedStatement<Registration> = """
        SELECT upstream.register_handlers(
            \(\.previous), \(\.token), \(\.worker), \(\.names), \(\.isByDevice), \(\.filters), \(\.askers),
            \(\.categories)
        )
        """

    /// The heartbeat of the process with this token; returns how many handlers it is registered for.
    static let keep: PreparedStatement<Int64> = "SELECT upstream.keep_handlers(\(\.self))"

    /// Follows the database's clock where it went back, which the future heartbeat of the process with this token shows:
    /// a failover to another machine's, or a wrong clock that was set right.
    ///
    /// By the old clock, deliveries of its handlers would not be due for as long, and dead workers would seem alive and
    /// keep leases and holds, none of which can last over an hour. Some at a time; the heartbeats are the last.
    static let followClock: PreparedStatement<Int64> = """
        WITH ahead AS MATERIALIZED (
            SELECT handler FROM upstream.handler_workers
            WHERE token = \(\.self) AND heartbeat_at > now() + interval '5 seconds'
        ), due AS (
            UPDATE upstream.deliveries SET next_attempt_at = now(), lease_until = \(longest("lease_until"))
            WHERE ctid = ANY (ARRAY(
                SELECT place FROM ahead CROSS JOIN (VALUES ('l'::"char"), ('r')) AS kind (letter) CROSS JOIN LATERAL (
                    SELECT ctid AS place FROM upstream.deliveries
                    WHERE handler = ahead.handler AND next_attempt_at > now()
                        AND (CASE WHEN replay_id IS NULL THEN 'l'::"char" ELSE 'r'::"char" END) = letter
                        -- Not what waits for a retry, of which nobody knows by which clock.
                        AND (received_at > now() OR attempts = 0 AND last_error IS NULL)
                    LIMIT 5000 FOR UPDATE SKIP LOCKED
                ) AS early
            ))
            RETURNING 1
        ), blocks AS (
            UPDATE upstream.delivery_blocks SET lease_until = \(longest("lease_until"))
            WHERE ctid = ANY (ARRAY(
                SELECT ctid FROM upstream.delivery_blocks
                WHERE lease_until > now() + interval '1 hour' AND handler IN (SELECT handler FROM ahead)
                FOR UPDATE SKIP LOCKED
            ))
        ), replays AS (
            UPDATE upstream.replays SET lease_until = \(longest("lease_until"))
            WHERE replay_id = ANY (ARRAY(
                SELECT replay_id FROM upstream.replays
                WHERE lease_until > now() + interval '1 hour' AND EXISTS (SELECT FROM ahead)
                FOR NO KEY UPDATE SKIP LOCKED
            ))
        ), held AS (
            UPDATE upstream.handlers SET held_until = \(longest("held_until")), seen_at = least(seen_at, now())
            WHERE name = ANY (ARRAY(
                SELECT name FROM upstream.handlers JOIN ahead ON handler = name
                WHERE held_until > now() + interval '1 hour' OR seen_at > now() FOR NO KEY UPDATE OF handlers SKIP LOCKED
            ))
        ), workers AS (
            UPDATE upstream.handler_workers SET
                heartbeat_at = now(), alive_since = least(alive_since, now()), share_until = \(longest("share_until"))
            WHERE NOT EXISTS (SELECT FROM due) AND (token, handler) IN (
                SELECT w.token, w.handler FROM upstream.handler_workers AS w JOIN ahead USING (handler)
                WHERE w.heartbeat_at > now() FOR NO KEY UPDATE OF w SKIP LOCKED
            )
        )
        SELECT count(*) FROM due
        """

    /// A time of a lease or a hold, an hour from now at most.
    private static func longest(_ time: String) -> PreparedStatement<Int64> {
        "CASE WHEN \(raw: time) > now() + interval '1 hour' THEN now() + interval '1 hour' ELSE \(raw: time) END"
    }

    /// Ends the registration of the process with this token.
    static func withdraw(_ token: Int64) -> SQL { "SELECT upstream.withdraw_handlers(\(token))" }

    /// Records that a worker runs these handlers; twice a minute is enough.
    ///
    /// Skips locked rows, so that one doesn't make the others wait.
    static let seen: PreparedStatement<[String]> = """
        UPDATE upstream.handlers SET seen_at = now()
        WHERE name = ANY (ARRAY(
            SELECT name FROM upstream.handlers
            WHERE name = ANY (\(\.self)) AND seen_at < now() - interval '30 seconds'
            ORDER BY name FOR NO KEY UPDATE SKIP LOCKED
        ))
        """

    /// Handlers with deliveries or subscriptions that no worker has run for a while.
    static let unclaimed: PreparedStatement<Void> = """
        SELECT name FROM upstream.handlers
        WHERE NOT \(raw: HandlerStatements.isClaimed)
            AND (EXISTS (SELECT FROM upstream.subscriptions WHERE handler = name)
                OR EXISTS (SELECT FROM upstream.deliveries WHERE handler = name))
        ORDER BY name
        """

    /// A fencing token for a process.
    static let nextToken: SQL = "SELECT nextval('upstream.lease_tokens')"

    /// The controls of some handlers: pauses, holds, resumptions, and circuits by the word of workers that run.
    static let controls: PreparedStatement<[String]> = """
        SELECT
            name, \(raw: HandlerStatements.isPaused),
            CASE WHEN \(raw: HandlerStatements.isHeld) THEN held_until - now() END, resumed_at,
            CASE WHEN EXISTS (
                SELECT FROM upstream.handler_workers
                WHERE token = circuit_token AND handler = name AND \(raw: HandlerStatements.isLive)
            ) THEN circuit_open END, circuit_changed_at
        FROM upstream.handlers WHERE name = ANY (\(\.self)) ORDER BY name
        """

    /// A process's share of a handler's limit over all workers.
    static func share(_ request: ShareRequest, of token: Int64) -> SQL {
        """
        SELECT upstream.take_share(
            \(token), \(request.handler), \(Int64(request.whole)), \(Int64(request.most)), \(Int64(request.busy)),
            \(request.lease)
        )
        """
    }

    /// Records a pause that a handler asked for; the longest one wins.
    ///
    /// Fails if its row is locked, so that no other handler's pause waits for it.
    static func hold(_ handler: String, _ hold: HandlerHold) -> SQL {
        """
        UPDATE upstream.handlers SET held_until = now() + \(hold.remaining), held_reason = \(hold.reason)
        WHERE name = (SELECT name FROM upstream.handlers WHERE name = \(handler) FOR NO KEY UPDATE NOWAIT)
            AND (held_until IS NULL OR held_until < now() + \(hold.remaining))
        """
    }

    /// Records a change of a handler's circuit in a process.
    ///
    /// Fails if its row is locked, as ``hold(_:_:)``.
    static func changeCircuit(_ handler: String, isOpen: Bool, by token: Int64) -> SQL {
        """
        UPDATE upstream.handlers
        SET circuit_open = \(isOpen), circuit_changed_at = clock_timestamp(), circuit_token = \(token)
        WHERE name = (SELECT name FROM upstream.handlers WHERE name = \(handler) FOR NO KEY UPDATE NOWAIT)
        RETURNING circuit_changed_at
        """
    }

    /// The backlog of each handler; the oldest delivery is searched for among the 1,000 of each kind due first.
    static let backlog: PreparedStatement<BacklogParameters> = """
        SELECT
            name,
            (SELECT count(*) FROM (
                SELECT FROM upstream.deliveries WHERE handler = name LIMIT \(\.limit)
            ) AS counted),
            (SELECT now() - min(received_at) FROM (\(raw: soonest)) AS soonest),
            (SELECT count(*) FROM (
                SELECT FROM upstream.dead_letters WHERE handler = name LIMIT \(\.limit)
            ) AS counted)
        FROM unnest(\(\.handlers)) AS input (name)
        """

    // MARK: Leases

    /// Extends leases that are still ours.
    static let extend: PreparedStatement<SettlementRows> = """
        UPDATE upstream.deliveries SET lease_until = now() + \(\.lease)
        FROM (SELECT * FROM unnest(\(\.keys), \(\.tokens)) AS each (key, token) ORDER BY key) AS input
        WHERE \(SettleStatements.isHeld)
        RETURNING message_key, lease_token
        """

    /// Turns blocks with expired leases into rows; the text is in `migrations/`.
    static let unpackExpired: PreparedStatement<Void> = "SELECT upstream.unpack_expired()"

    // MARK: Frozen workers

    /// Ends our sessions that hold deliveries and have waited for their worker to read for longer than its leases last.
    ///
    /// A worker that freezes while a claim's rows are being sent keeps its locks, including that of an ordered handler,
    /// and no timeout of PostgreSQL applies while it sends. The role that signed in may not use the schema.
    static let endUnread: PreparedStatement<Duration> = """
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity AS sender
        WHERE datname = current_database() AND usename = current_user AND state = 'active' AND wait_event = 'ClientWrite'
            AND query_start < now() - \(\.self)
            AND EXISTS (
                SELECT FROM pg_locks AS held
                WHERE held.pid = sender.pid AND mode = 'RowExclusiveLock' AND relation = (
                    SELECT oid FROM pg_class WHERE relname = 'deliveries' AND relnamespace = to_regnamespace('upstream')
                )
                OFFSET 0
            )
        """

    // MARK: Notifications

    /// Subscribes to notifications about new deliveries.
    static let listen: SQL = "LISTEN \(raw: DeliveryBell.channel)"
}
