import Pipeline
import Postgres
import Vocabulary

/// A worker's registration, as ``DeliveryStatements/register`` takes it.
struct HandlerRequests: Sendable {
    /// The process's previous token; 0 for none.
    var previous: Int64
    /// The process's new token.
    var token: Int64
    /// Host and process id, shown to people.
    var worker: String
    /// The handlers, and whether each is ordered (one delivery of a device at a time).
    var handlers: [String]
    var isByDevice: [Bool]
    /// Pairs of a handler and a category.
    var askers: [String]
    var categories: [String]
}

/// Leased deliveries of one handler; each statement takes the columns that it names.
struct LeaseRows: Sendable {
    var handler: String
    var keys: [Digest128] = []
    var tokens: [Int64] = []
    /// The delay before each may be tried again.
    var delays: [Duration] = []
    /// 1 if the attempt counts, else 0.
    var counted: [Int64] = []
    var errors: [String] = []
    /// The failures' groups.
    var groups: [String] = []
    /// The leases' new duration, from now.
    var lease = Duration.zero
    var worker = ""
    /// How long ago each attempt began.
    var ages: [Seconds] = []
    /// How long each took.
    var durations: [Seconds] = []
    /// Each attempt's outcome.
    var outcomes: [String] = []
    /// The start, from 1, of each part that is one row of history; empty if unknown.
    var lows: [Int64] = []
    /// The end of each part.
    var highs: [Int64] = []
    /// When the first and last of its messages were received.
    var firsts: [Timestamp] = []
    var lasts: [Timestamp] = []
}

/// Blocks of one handler; each statement takes the columns that it names.
struct BlockRows: Sendable {
    var handler: String
    var token: Int64
    var worker: String
    var numbers: [Int64] = []
    /// The number of deliveries in each.
    var counts: [Int64] = []
    /// The finished messages of all of them.
    var done: [Digest128] = []
    /// How long ago each attempt began.
    var ages: [Seconds] = []
    /// How long each took.
    var durations: [Seconds] = []
    /// The block of each part of ``done`` that is one row of history.
    var parts: [Int64] = []
    /// The start of each part, from 1.
    var lows: [Int64] = []
    /// The end of each part.
    var highs: [Int64] = []
    /// When the first and last of its messages were received.
    var firsts: [Timestamp] = []
    var lasts: [Timestamp] = []
}

/// The handlers whose deliveries ``DeliveryStatements/backlog`` counts.
struct BacklogParameters: Sendable {
    var handlers: [String]
    /// Where counts stop.
    var limit: Int
}

/// A part of statements about leased deliveries.
typealias LeasePart = PreparedStatement<LeaseRows>

enum DeliveryStatements: StatementCatalog {
    /// The channel of ingest's notifications about deliveries for other workers.
    static let channel = "upstream_deliveries"

    // MARK: Handlers

    /// Registers a process; the texts of this and the next two are in `migrations/`.
    static let register: PreparedStatement<HandlerRequests> = """
        SELECT upstream.register_handlers(
            \(\.previous), \(\.token), \(\.worker), \(\.handlers), \(\.isByDevice), \(\.askers), \(\.categories)
        )
        """

    /// The heartbeat of the process with this token; returns how many handlers it is registered for.
    static let keep: PreparedStatement<Int64> = "SELECT upstream.keep_handlers(\(\.self))"

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

    /// The controls of some handlers: pauses, holds, resumptions.
    static let controls: PreparedStatement<[String]> = """
        SELECT
            name, paused AND (paused_until IS NULL OR paused_until > now()),
            CASE WHEN \(raw: HandlerStatements.isHeld) THEN held_until - now() END, resumed_at
        FROM upstream.handlers WHERE name = ANY (\(\.self)) ORDER BY name
        """

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

    /// Pauses a handler until it is resumed.
    static func pause(_ handler: String, reason: String) -> SQL {
        """
        UPDATE upstream.handlers SET paused = true, paused_until = NULL, paused_reason = \(reason), paused_at = now()
        WHERE name = \(handler)
        """
    }

    /// The backlog of each handler; the oldest delivery is searched for among the 1,000 due first.
    static let backlog: PreparedStatement<BacklogParameters> = """
        SELECT
            name,
            (SELECT count(*) FROM (
                SELECT FROM upstream.deliveries WHERE handler = name LIMIT \(\.limit)
            ) AS counted),
            (SELECT now() - min(received_at) FROM (
                SELECT received_at FROM upstream.deliveries WHERE handler = name ORDER BY next_attempt_at LIMIT 1000
            ) AS soonest),
            (SELECT count(*) FROM (
                SELECT FROM upstream.dead_letters WHERE handler = name LIMIT \(\.limit)
            ) AS counted)
        FROM unnest(\(\.handlers)) AS input (name)
        """

    // MARK: Leases

    /// The row of `input` (key, token), if its lease is still ours.
    ///
    /// Found by key alone, which ``PostgresSettings/findsRowsByIndex`` and the `||` enforce: otherwise the planner may
    /// walk all of the handler's deliveries, which it believes to be few.
    static let isHeld: LeasePart =
        "message_key = key AND handler || '' = \(\.handler) AND lease_token = token AND lease_owner IS NOT NULL"

    static let extend: PreparedStatement<LeaseRows> = """
        UPDATE upstream.deliveries SET lease_until = now() + \(\.lease)
        FROM unnest(\(\.keys), \(\.tokens)) AS input (key, token)
        WHERE \(isHeld)
        RETURNING message_key, lease_token
        """

    // MARK: Settlements

    /// Completes deliveries.
    ///
    /// Does not wait for the disk: after a server crash they are delivered again, which at-least-once allows.
    static let complete: PreparedStatement<LeaseRows> = delete("")

    /// The same for an ordered handler; returns the devices.
    static let completeByDevice: PreparedStatement<LeaseRows> = delete("RETURNING device_key")

    private static func delete(_ returning: PreparedStatement<LeaseRows>) -> PreparedStatement<LeaseRows> {
        """
        WITH quick AS MATERIALIZED (
            SELECT set_config('synchronous_commit', 'off', true)
        )
        DELETE FROM upstream.deliveries
        USING unnest(\(\.keys), \(\.tokens)) AS input (key, token), quick
        WHERE \(isHeld) \(returning)
        """
    }

    /// Releases deliveries for another attempt.
    static let retry: PreparedStatement<LeaseRows> = """
        UPDATE upstream.deliveries
        SET attempts = attempts + 1, crashes = 0, last_error = error,
            next_attempt_at = now() + delay, lease_owner = NULL, lease_until = NULL
        FROM unnest(\(\.keys), \(\.tokens), \(\.delays), \(\.errors)) AS input (key, token, delay, error)
        WHERE \(isHeld)
        """

    /// Releases deliveries without a counted attempt.
    static let release: PreparedStatement<LeaseRows> = """
        UPDATE upstream.deliveries
        SET next_attempt_at = now() + delay, lease_owner = NULL, lease_until = NULL
        FROM unnest(\(\.keys), \(\.tokens), \(\.delays)) AS input (key, token, delay)
        WHERE \(isHeld)
        """

    /// As ``release``, recording what went wrong.
    static let postpone: PreparedStatement<LeaseRows> = """
        UPDATE upstream.deliveries
        SET next_attempt_at = now() + delay, last_error = error, lease_owner = NULL,
            lease_until = NULL
        FROM unnest(\(\.keys), \(\.tokens), \(\.delays), \(\.errors)) AS input (key, token, delay, error)
        WHERE \(isHeld)
        """

    /// Makes deliveries dead letters.
    static let setAside: PreparedStatement<LeaseRows> = """
        WITH gone AS (
            DELETE FROM upstream.deliveries
            USING unnest(\(\.keys), \(\.tokens), \(\.counted), \(\.errors), \(\.groups))
                AS input (key, token, counted, failure, failure_group)
            WHERE \(isHeld)
            RETURNING deliveries.*, counted, failure, failure_group
        )
        \(bury(from: "gone"))
        """

    /// Inserts the rows deleted by the named part, with `counted`, `failure` and `failure_group`, as dead letters.
    static func bury(from source: String) -> LeasePart {
        """
        INSERT INTO upstream.dead_letters (
            handler, message_key, received_at, attempts, next_attempt_at, lease_owner, lease_token, lease_until,
            last_error, replay_id, crashes, device_key, error_group
        )
        SELECT
            handler, message_key, received_at, attempts + counted, next_attempt_at, lease_owner, lease_token,
            lease_until, failure, replay_id, crashes, device_key, failure_group
        FROM \(raw: source)
        ON CONFLICT (message_key, handler) DO UPDATE SET
            attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at,
            lease_owner = excluded.lease_owner, lease_token = excluded.lease_token,
            lease_until = excluded.lease_until, last_error = excluded.last_error, replay_id = excluded.replay_id,
            crashes = excluded.crashes, device_key = excluded.device_key, error_group = excluded.error_group,
            died_at = now()
        RETURNING device_key
        """
    }

    // MARK: Blocks

    /// Deletes blocks in which everything is done, if they hold as many deliveries as this worker knows; returns their
    /// numbers.
    static let completeBlocks: PreparedStatement<BlockRows> = """
        WITH quick AS MATERIALIZED (
            SELECT set_config('synchronous_commit', 'off', true)
        )
        DELETE FROM upstream.delivery_blocks
        USING unnest(\(\.numbers), \(\.counts)) AS input (given, size), quick
        WHERE token = \(\.token) AND handler = \(\.handler) AND number = given AND cardinality(keys) = size
        RETURNING number
        """

    /// Turns blocks into rows, except what is done, and returns how many were done; the text is in `migrations/`.
    static let unpack: PreparedStatement<BlockRows> =
        "SELECT upstream.unpack_deliveries(\(\.token), \(\.handler), \(\.numbers), \(\.done))"

    /// Turns blocks with expired leases into rows; the text is in `migrations/`.
    static let unpackExpired: PreparedStatement<Void> = "SELECT upstream.unpack_expired()"

    // MARK: Frozen workers

    /// Ends our sessions that hold deliveries and have waited for their worker to read for longer than its leases last.
    ///
    /// A worker that freezes while a claim's rows are being sent keeps its locks, including that of an ordered handler,
    /// and no timeout of PostgreSQL applies while it sends.
    static let endUnread: PreparedStatement<Duration> = """
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity AS sender
        WHERE datname = current_database() AND usename = current_user AND state = 'active' AND wait_event = 'ClientWrite'
            AND query_start < now() - \(\.self)
            AND EXISTS (
                SELECT FROM pg_locks AS held
                WHERE held.pid = sender.pid AND relation = 'upstream.deliveries'::regclass AND mode = 'RowExclusiveLock'
                OFFSET 0
            )
        """

    // MARK: Notifications

    /// Subscribes to notifications about new deliveries.
    static let listen: SQL = "LISTEN \(raw: channel)"

    static var samples: [StatementSample] {
        [
            StatementSample("register", register),
            StatementSample("keep", keep),
            StatementSample("withdraw", withdraw(1)),
            StatementSample("seen", seen),
            StatementSample("unclaimed", unclaimed),
            StatementSample("nextToken", nextToken),
            StatementSample("controls", controls),
            StatementSample("hold", hold("orders", HandlerHold(remaining: .seconds(1), reason: "a test"))),
            StatementSample("pause", pause("orders", reason: "a test")),
            StatementSample("backlog", backlog),
            StatementSample("extend", extend),
            StatementSample("complete", complete),
            StatementSample("completeByDevice", completeByDevice),
            StatementSample("retry", retry),
            StatementSample("release", release),
            StatementSample("postpone", postpone),
            StatementSample("setAside", setAside),
            StatementSample("completeBlocks", completeBlocks),
            StatementSample("unpack", unpack),
            StatementSample("unpackExpired", unpackExpired),
            StatementSample("endUnread", endUnread),
            StatementSample("listen", listen),
        ]
    }
}
