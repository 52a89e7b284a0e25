import Postgres
import Querying

/// The statements that find what earlier replays have sent to the same place.
///
/// They read the sent parts of frozen selections, never the messages. What a deleted replay has sent is unknown.
enum EarlierStatements {
    /// Creates the table of earlier replays, numbered by the start of their latest run.
    static let makeReplays: SQL = """
        CREATE TEMPORARY TABLE earlier_replays (
            number integer, replay_id uuid, name text, handlers text[], done bigint, started_at timestamptz
        ) ON COMMIT DROP
        """

    /// Creates the table of what they have sent, with the number of the latest replay that did.
    static let makeMessages: SQL = """
        CREATE TEMPORARY TABLE earlier_messages (message_key uuid, handler smallint, number integer) ON COMMIT DROP
        """

    /// Finds the replays that have sent something to one of these places.
    ///
    /// `done` is copied, since a running replay continues meanwhile. Replays of days outside the filter's times, and of
    /// days without any messages left, not even for dead letters, are left out.
    ///
    /// A replay of dead letters alone skips those that are gone, without recording which: what it has sent is unknown,
    /// and is rather sent twice than left out.
    static func findReplays(_ target: ReplayTarget, _ filter: MessageFilter) -> SQL {
        """
        INSERT INTO earlier_replays
        SELECT row_number() OVER (ORDER BY started_at, replay_id), replay_id, name, handlers, done, started_at
        FROM upstream.replays
        WHERE kind = \(target.kind) AND occupies && \(target.occupies) AND done > 0 AND started_at IS NOT NULL
            AND NOT (only_failed AND skipped > 0)
            AND last_received_at >= coalesce(
                least(
                    (SELECT min(coalesce(p.since, '-infinity')) FROM upstream.partitions() AS p),
                    (SELECT min(k.received_at) FROM upstream.dead_messages AS k)),
                '-infinity')
            AND (\(filter.since)::timestamptz IS NULL OR last_received_at >= \(filter.since))
            AND (\(filter.until)::timestamptz IS NULL OR first_received_at < \(filter.until))
        """
    }

    static func collectDeliveries(for handlers: [String], _ filter: MessageFilter) -> SQL {
        """
        INSERT INTO earlier_messages
        SELECT t.message_key, array_position(\(handlers), h.name)::smallint, max(p.number)
        FROM earlier_replays AS p
        JOIN upstream.replay_messages AS r ON r.replay_id = p.replay_id AND \(isSentChunk)
        CROSS JOIN LATERAL unnest(r.received_at, r.message_key, r.handler)
            WITH ORDINALITY AS t (received_at, message_key, handler, number)
        JOIN upstream.handlers AS h ON h.name = p.handlers[t.handler] AND h.registered_at <= p.started_at
        WHERE h.name = ANY (\(handlers)) AND \(isSent) AND \(isSelected(filter))
        GROUP BY 1, 2
        """
    }

    /// Collects what they have sent to an endpoint.
    static func collectMessages(_ filter: MessageFilter) -> SQL {
        """
        INSERT INTO earlier_messages
        SELECT t.message_key, NULL, max(p.number)
        FROM earlier_replays AS p
        JOIN upstream.replay_messages AS r ON r.replay_id = p.replay_id AND \(isSentChunk)
        CROSS JOIN LATERAL unnest(r.received_at, r.message_key)
            WITH ORDINALITY AS t (received_at, message_key, number)
        WHERE \(isSent) AND \(isSelected(filter))
        GROUP BY 1
        """
    }

    /// How many of the requested rows each earlier replay has sent, the largest first.
    static func counts(_ scope: ReplayRequest.Scope?) -> SQL {
        """
        SELECT p.name, count(*) FROM replay_selection AS s JOIN earlier_replays AS p ON p.number = s.earlier
        WHERE \(PlanStatements.standing(scope))
        GROUP BY p.number, p.name ORDER BY 2 DESC, p.number DESC LIMIT 100
        """
    }

    private static let isSentChunk: SQL = "r.chunk::int8 * \(ReplayPlanner.chunkSize) < p.done"
    private static let isSent: SQL = "r.chunk::int8 * \(ReplayPlanner.chunkSize) + t.number - 1 < p.done"

    private static func isSelected(_ filter: MessageFilter) -> SQL {
        """
        (\(filter.since)::timestamptz IS NULL OR t.received_at >= \(filter.since))
            AND (\(filter.until)::timestamptz IS NULL OR t.received_at < \(filter.until))
        """
    }
}
