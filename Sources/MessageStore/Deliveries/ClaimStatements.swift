import Dispatcher
import Postgres
import Vocabulary

/// The parameters of a claim; each statement takes those that it names.
struct ClaimParameters: Sendable {
    var request: ClaimRequest
    /// The place after which the claim begins, or up to which it goes.
    var place = ClaimPlace.start
    /// The same for replayed deliveries.
    var replayedPlace = ClaimPlace.start
    /// The range of message keys or devices to look at.
    var keys = Digest128(high: 0, low: 0)...Digest128(high: .max, low: .max)
    /// Whether only deliveries without a device are wanted.
    var isWithoutDevice = false
    /// The devices whose oldest deliveries are wanted.
    var devices: [Digest128] = []
}

/// The statements that claim deliveries.
///
/// All but ``lockOrdered`` and ``due`` return rows of one form, and at least one: each has the columns of
/// ``ClaimSurroundings`` beside a delivery or nulls.
///
/// `(device_key IS NOT NULL) IS TRUE` keeps the planner from the index of devices where rows are wanted in the order in
/// which they are due.
enum ClaimStatements {
    typealias Statement = PreparedStatement<ClaimParameters>

    private static let isFree: Statement = "(lease_until IS NULL OR lease_until <= now())"
    // A lease that expired instead of being released counts as a crash of its holder.
    private static let isNoSuspect: Statement = "crashes + (lease_owner IS NOT NULL)::int < \(\.request.suspectFrom)"
    private static let isSuspect: Statement =
        "crashes > 0 AND crashes + (lease_owner IS NOT NULL)::int BETWEEN \(\.request.suspectFrom) AND \(\.request.mostCrashes)"
    private static let isUntried: Statement = "attempts = 0 AND \(isNoSuspect)"
    private static let isPaused: Statement =
        "SELECT FROM upstream.handlers WHERE name = \(\.request.handler) AND \(raw: HandlerStatements.isPaused)"
    private static let place: Statement = "(next_attempt_at, received_at, message_key)"
    private static let givenPlace: Statement =
        "(\(\.place.nextAttemptAt), \(\.place.receivedAt), \(\.place.key))"
    private static let givenReplayedPlace: Statement =
        "(\(\.replayedPlace.nextAttemptAt), \(\.replayedPlace.receivedAt), \(\.replayedPlace.key))"
    /// How many replayed deliveries a claim takes beside its `live` ones.
    private static let restForReplayed: Statement =
        "least(\(\.request.replayed), greatest(\(\.request.limit) - (SELECT count(*) FROM live), \(\.request.owed)))"

    /// Leases the first deliveries due after a place: live ones, then replayed ones after their own place.
    ///
    /// Each kind is found in its own part of the index, so that neither search passes over the others. Skips rows locked
    /// by another claim.
    static let ahead: Statement = """
        WITH live AS MATERIALIZED (
            \(first(DeliveryStatements.isLive, after: givenPlace, limit: "\(\.request.limit)"))
        ), replayed AS MATERIALIZED (
            \(first(DeliveryStatements.isReplayed, after: givenReplayedPlace, limit: restForReplayed))
        ), due AS MATERIALIZED (
            SELECT * FROM live UNION ALL SELECT * FROM replayed
        ), \(leaseAndLoad)
        """

    private static func first(_ kind: String, after place: Statement, limit: Statement) -> Statement {
        """
        SELECT \(found) FROM upstream.deliveries
        WHERE handler = \(\.request.handler) AND \(self.place) > \(place) AND next_attempt_at <= now() AND \(isNoSuspect)
            AND \(raw: kind) AND \(isFree) AND NOT EXISTS (\(isPaused))
        ORDER BY next_attempt_at, received_at, message_key LIMIT \(limit) FOR UPDATE SKIP LOCKED
        """
    }

    /// Leases what is due up to a place, which replayed ones have for themselves, and has its key in a range.
    ///
    /// Read by key, which ``PostgresSettings/findsRowsByIndex``, the `||` and the `+` enforce: a piece is bounded in
    /// keys.
    static let behind = leasing(
        """
        \(isInPiece) AND CASE
                WHEN replay_id IS NULL THEN (next_attempt_at, received_at, message_key) <= \(givenPlace)
                ELSE (next_attempt_at, received_at, message_key) <= \(givenReplayedPlace) AND \(\.request.replayed) > 0
            END
            AND \(isNoSuspect) AND \(isOfKind)
        """
    )

    /// Leases the first due suspects: deliveries with which several workers crashed.
    static let suspects = leasing(
        "handler = \(\.request.handler) AND next_attempt_at <= now() AND \(isSuspect) AND \(isOfKind)",
        "ORDER BY next_attempt_at"
    )

    /// Leases the newest deliveries due after a place that have no counted attempt, among the newest ``probed``.
    ///
    /// For probes of a failed handler: at most one such claim per probe.
    static let untried: Statement = """
        WITH newest AS MATERIALIZED (
            \(newest(DeliveryStatements.isLive))
            UNION ALL
            \(newest(DeliveryStatements.isReplayed))
            ORDER BY next_attempt_at DESC, received_at DESC, message_key DESC LIMIT \(raw: "\(probed)")
        ), chosen AS MATERIALIZED (
            SELECT message_key FROM newest WHERE \(isFree) AND \(isUntried) LIMIT \(\.request.limit)
        ), due AS MATERIALIZED (
            SELECT \(found) FROM upstream.deliveries
            WHERE message_key = ANY (ARRAY(SELECT message_key FROM chosen)) AND handler || '' = \(\.request.handler)
                AND \(isFree) AND \(isUntried)
            FOR UPDATE SKIP LOCKED
        ), \(leaseAndLoad)
        """

    private static func newest(_ kind: String) -> Statement {
        """
        (
            SELECT * FROM upstream.deliveries
            WHERE handler = \(\.request.handler) AND \(place) > \(givenPlace) AND next_attempt_at <= now()
                AND \(raw: kind) AND NOT EXISTS (\(isPaused))
            ORDER BY next_attempt_at DESC, received_at DESC, message_key DESC LIMIT \(raw: "\(probed)")
        )
        """
    }

    /// The same for a range of keys, at any place.
    ///
    /// Read by key, as ``behind``.
    static let untriedPiece = leasing(
        "\(isInPiece) AND \(isUntried) AND \(isOfKind)",
        "ORDER BY next_attempt_at DESC, received_at DESC, message_key DESC"
    )

    /// How many rows, or devices, a probe examines.
    private static let probed = 250

    // MARK: By device

    /// Serializes claims of an ordered handler; the claim is a separate statement, so that it sees what the previous
    /// one did.
    ///
    /// Returns whether the lock is ours now; never waits.
    static let lockOrdered: Statement =
        "SELECT pg_try_advisory_xact_lock(hashtextextended('upstream.claim ' || \(\.request.handler), 0))"

    /// The devices of the first deliveries due and free after a place, with their places: of live ones, and of replayed
    /// ones after their own.
    static let due: Statement = """
        WITH live AS MATERIALIZED (
            \(firstDevices(DeliveryStatements.isLive, after: givenPlace, limit: "\(\.request.limit)"))
        ), replayed AS MATERIALIZED (
            \(firstDevices(DeliveryStatements.isReplayed, after: givenReplayedPlace, limit: restForReplayed))
        ), found AS (
            SELECT * FROM live UNION ALL SELECT * FROM replayed
        )
        SELECT found.*, around.* FROM (\(surroundings)) AS around LEFT JOIN found ON true
        ORDER BY is_replayed, next_attempt_at, received_at, message_key
        """

    private static func firstDevices(_ kind: String, after place: Statement, limit: Statement) -> Statement {
        """
        SELECT device_key, replay_id IS NOT NULL AS is_replayed, next_attempt_at, received_at, message_key
        FROM upstream.deliveries
        WHERE handler = \(\.request.handler) AND \(self.place) > \(place) AND next_attempt_at <= now() AND \(isFree)
            AND \(raw: kind) AND (device_key IS NOT NULL) IS TRUE
        ORDER BY next_attempt_at, received_at, message_key LIMIT \(limit)
        """
    }

    /// Leases the oldest delivery of each given device, if it is due and no other of the device is leased.
    static let devices: Statement = """
        WITH head AS MATERIALIZED (
            SELECT oldest.* FROM unnest(\(\.devices)) AS wanted (device) CROSS JOIN LATERAL (
                SELECT * FROM upstream.deliveries
                WHERE handler = \(\.request.handler) AND device_key = wanted.device
                ORDER BY received_at, message_key LIMIT 1
            ) AS oldest
            WHERE NOT EXISTS (\(isPaused))
        ), \(leaseHeads(isNoSuspect))
        """

    /// The same for a range of devices, walking the index from one device to the next, so that a long queue costs no
    /// more than a short one.
    static let deviceRange: Statement = walk(
        "\(isNoSuspect) AND (replay_id IS NULL OR \(\.request.replayed) > 0)",
        limit: .max
    )

    /// The same for deliveries without a counted attempt, and the first ``probed`` devices.
    static let deviceUntried: Statement = walk(isUntried, limit: Int32(probed))

    private static func walk(_ condition: Statement, limit: Int32) -> Statement {
        """
        WITH RECURSIVE head AS (
            (SELECT *, 1 AS number FROM upstream.deliveries
            WHERE handler = \(\.request.handler) AND device_key >= \(\.keys.lowerBound) AND device_key <= \(\.keys.upperBound)
                AND NOT EXISTS (\(isPaused))
            ORDER BY device_key, received_at, message_key LIMIT 1)
            UNION ALL
            SELECT next.*, head.number + 1 FROM head CROSS JOIN LATERAL (
                SELECT * FROM upstream.deliveries
                WHERE handler = \(\.request.handler) AND device_key > head.device_key AND device_key <= \(\.keys.upperBound)
                ORDER BY device_key, received_at, message_key LIMIT 1
            ) AS next
            WHERE head.number < \(raw: "\(limit)")
        ), \(leaseHeads(condition))
        """
    }

    /// Leases the oldest delivery of a device, if it is a suspect.
    static let deviceSuspects: Statement = """
        WITH head AS MATERIALIZED (
            SELECT * FROM upstream.deliveries AS suspect
            WHERE handler = \(\.request.handler) AND crashes > 0 AND (device_key IS NOT NULL) IS TRUE
                AND NOT EXISTS (\(isPaused))
                AND NOT EXISTS (
                    SELECT FROM upstream.deliveries AS older
                    WHERE older.handler = \(\.request.handler) AND older.device_key = suspect.device_key
                        AND (older.received_at, older.message_key) < (suspect.received_at, suspect.message_key)
                )
        ), \(leaseHeads(isSuspect))
        """

    /// Skips a device that has another leased delivery.
    ///
    /// A dead letter that is retried, or a replayed message, may be older than the leased delivery. The search goes
    /// behind as many older ones as two replays have under way at once, and from the newest on as far, since any number
    /// may be retried at once; behind one that has always been the oldest, only as far as commits overtake each other.
    private static func leaseHeads(_ condition: Statement) -> Statement {
        let own: Statement = """
            SELECT lease_until FROM upstream.deliveries AS other
            WHERE other.handler = \(\.request.handler) AND other.device_key = head.device_key
            """
        let wasInserted = "head.attempts = 0 AND (head.replay_id IS NOT NULL OR head.last_error IS NOT NULL)"
        return """
            chosen AS MATERIALIZED (
                SELECT message_key FROM head
                WHERE next_attempt_at <= now() AND \(isFree) AND \(condition)
                    AND NOT EXISTS (
                        SELECT FROM (
                            (\(own) ORDER BY received_at, message_key
                            LIMIT CASE WHEN \(raw: wasInserted) THEN 2000 ELSE 64 END)
                            UNION ALL
                            (\(own) ORDER BY received_at DESC, message_key DESC
                            LIMIT CASE WHEN \(raw: wasInserted) THEN 2000 ELSE 0 END)
                        ) AS queue WHERE lease_until > now()
                    )
                LIMIT \(\.request.limit)
            ), due AS MATERIALIZED (
                SELECT \(found) FROM upstream.deliveries
                WHERE message_key = ANY (ARRAY(SELECT message_key FROM chosen)) AND handler || '' = \(\.request.handler)
                FOR UPDATE SKIP LOCKED
            ), \(leaseAndLoad)
            """
    }

    // MARK: Parts

    private static let isInPiece: Statement = """
        message_key BETWEEN \(\.keys.lowerBound) AND \(\.keys.upperBound) AND handler || '' = \(\.request.handler)
            AND next_attempt_at + interval '0' <= now()
        """
    private static let isOfKind: Statement = "(NOT \(\.isWithoutDevice) OR device_key IS NULL)"

    /// Leases the first free rows that meet a condition.
    private static func leasing(_ condition: Statement, _ order: Statement = "") -> Statement {
        """
        WITH due AS MATERIALIZED (
            SELECT \(found) FROM upstream.deliveries
            WHERE \(condition) AND \(isFree) AND NOT EXISTS (\(isPaused)) \(order) LIMIT \(\.request.limit)
            FOR UPDATE SKIP LOCKED
        ), \(leaseAndLoad)
        """
    }

    /// The time, the table's size in entries, and whether the handler is paused.
    ///
    /// Session counters arrive seconds late, and are lost when the server crashes or a standby takes over; then the
    /// last vacuum's result and the pages added since, about ``rowsPerPage`` rows each, still tell.
    private static let surroundings: Statement = """
        SELECT
            now() AS at,
            greatest(
                pg_stat_get_live_tuples(oid) + pg_stat_get_dead_tuples(oid),
                greatest(reltuples, 0)::bigint + \(raw: "\(rowsPerPage)")
                    * greatest(pg_relation_size(oid) / current_setting('block_size')::int - relpages, 0)
            ) AS entries,
            EXISTS (\(isPaused)) AS is_paused
        FROM pg_class WHERE oid = 'upstream.deliveries'::regclass
        """

    private static let rowsPerPage = 50

    private static let found: Statement =
        "ctid AS place, message_key, received_at, next_attempt_at, replay_id IS NOT NULL AS is_replayed"

    /// Leases as many due deliveries as fit, live and replayed ones for themselves; the others were only locked.
    ///
    /// `OFFSET 0` keeps the lookup of each message a lookup: the planner can't know how few rows `due` has, and must
    /// not read whole days for them.
    private static let leaseAndLoad: Statement = """
        token AS MATERIALIZED (
            SELECT nextval('upstream.lease_tokens') AS value
        ), loaded AS MATERIALIZED (
            SELECT
                place, is_replayed, message_id, sender_id, category, registration_token, message.device_key AS sent_by, data_raw, data, extra,
                message_type,
                coalesce(sum(size) OVER (
                    PARTITION BY is_replayed
                    ORDER BY due.next_attempt_at, due.received_at, due.message_key
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), 0) AS before
            FROM due LEFT JOIN LATERAL (
                SELECT *, \(raw: MessageSize.sql) AS size FROM upstream.message_of(due.message_key, due.received_at) OFFSET 0
            ) AS message ON true
        ), leased AS (
            UPDATE upstream.deliveries
            SET lease_owner = \(\.request.owner), lease_token = token.value, lease_until = now() + \(\.request.lease),
                crashes = crashes + (lease_owner IS NOT NULL)::int
            FROM loaded, token
            WHERE deliveries.ctid = loaded.place
                AND before < CASE WHEN is_replayed THEN \(\.request.replayedBytes) ELSE \(\.request.bytes) END
            RETURNING deliveries.*, loaded.*
        )
        SELECT
            message_key, received_at, next_attempt_at, lease_token, attempts, crashes, replay_id::text, message_id, sender_id,
            category, registration_token, sent_by, coalesce(data_raw, data::text), extra, message_type, around.*
        FROM (\(surroundings)) AS around LEFT JOIN leased ON true
        ORDER BY is_replayed, next_attempt_at, received_at, message_key
        """
}
