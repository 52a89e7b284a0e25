import MessageStore
import Postgres
import Querying
import Vocabulary

/// The statements that plan a replay, in one transaction: `replay_selection` is its temporary table.
enum PlanStatements {
    /// The id of the replay of this name that has not ended.
    static func unfinished(_ name: String) -> SQL {
        """
        SELECT replay_id FROM upstream.replays
        WHERE name = \(name) AND state IN ('planned', 'running', 'paused', 'failed') LIMIT 1
        """
    }

    static let handlers: SQL = "SELECT name FROM upstream.handlers ORDER BY name"

    // MARK: Selection

    /// Creates the table of what the filter selects.
    ///
    /// `standing` is the message's state at the handler: `p` pending, `x` dead letter, `n` received before the handler
    /// was registered, `h` handled; `m` for a target without handlers. `earlier` is the number of the latest earlier
    /// replay that has sent it to the same place; null for pending deliveries and dead letters, which have not ended
    /// well, whoever sent them.
    static let makeSelection: SQL = """
        CREATE TEMPORARY TABLE replay_selection (
            received_at timestamptz, message_key uuid, category text, handler smallint, standing "char",
            earlier integer
        ) ON COMMIT DROP
        """

    /// Selects messages for a target without handlers.
    static func selectMessages(_ filter: MessageFilter) -> SQL {
        """
        INSERT INTO replay_selection
        SELECT m.received_at, m.message_key, m.category, NULL, 'm', e.number
        FROM upstream.messages AS m
        LEFT JOIN earlier_messages AS e ON e.message_key = m.message_key
        WHERE \(filter.condition())
        """
    }

    /// Selects deliveries of messages whose day was dropped, and which are kept for their dead letters.
    static func selectKept(_ filter: MessageFilter, for handlers: [String], isSubscribed: Bool) -> SQL {
        """
        INSERT INTO replay_selection
        SELECT
            m.received_at, m.message_key, m.category, array_position(\(handlers), x.handler)::smallint,
            CASE WHEN d.message_key IS NOT NULL THEN 'p' ELSE 'x' END, NULL
        FROM upstream.dead_messages AS m
        JOIN upstream.dead_letters AS x ON x.message_key = m.message_key AND x.handler = ANY (\(handlers))
        JOIN upstream.handlers AS h ON h.name = x.handler AND \(isSubscribed ? subscribed : "true")
        LEFT JOIN upstream.deliveries AS d ON d.message_key = m.message_key AND d.handler = x.handler
        WHERE \(filter.condition()) AND NOT EXISTS (
            SELECT FROM upstream.messages AS day
            WHERE day.received_at = m.received_at AND day.message_key = m.message_key)
        """
    }

    static func selectDeliveries(_ filter: MessageFilter, for handlers: [String], isSubscribed: Bool) -> SQL {
        """
        INSERT INTO replay_selection
        SELECT
            m.received_at, m.message_key, m.category, h.place,
            CASE
                WHEN d.message_key IS NOT NULL THEN 'p' WHEN x.message_key IS NOT NULL THEN 'x'
                WHEN m.received_at < h.registered_at THEN 'n' ELSE 'h'
            END,
            CASE WHEN d.message_key IS NULL AND x.message_key IS NULL THEN e.number END
        FROM upstream.messages AS m
        JOIN (
            SELECT name, registered_at, array_position(\(handlers), name)::smallint AS place
            FROM upstream.handlers WHERE name = ANY (\(handlers))
        ) AS h ON \(isSubscribed ? subscribed : "true")
        LEFT JOIN upstream.deliveries AS d ON d.message_key = m.message_key AND d.handler = h.name
        LEFT JOIN upstream.dead_letters AS x ON x.message_key = m.message_key AND x.handler = h.name
        LEFT JOIN earlier_messages AS e ON e.message_key = m.message_key AND e.handler = h.place
        WHERE \(filter.condition())
        """
    }

    private static let subscribed: SQL = """
        EXISTS (
            SELECT FROM upstream.subscriptions AS s
            WHERE s.handler = h.name AND \(HandlerStatements.wants("m"))
        )
        """

    // MARK: Counts

    /// The selected rows that a plan holds.
    private static func wanted(_ request: ReplayRequest) -> SQL {
        request.includesReplayed ? standing(request.scope) : "\(standing(request.scope)) AND earlier IS NULL"
    }

    /// The selected rows that a plan would hold if none had been replayed before.
    static func standing(_ scope: ReplayRequest.Scope?) -> SQL {
        switch scope {
        case nil: "standing = 'm'"
        case .onlyFailed: "standing = 'x'"
        case .notHandled: "standing IN ('x', 'n')"
        case .all: "standing IN ('x', 'n', 'h')"
        }
    }

    /// By handler and standing: rows selected, rows in the plan, and requested rows that were replayed before.
    static func standings(_ request: ReplayRequest) -> SQL {
        """
        SELECT
            handler::int8, standing::text, count(*), sum((\(wanted(request)))::int)::int8,
            count(*) FILTER (WHERE \(standing(request.scope)) AND earlier IS NOT NULL)
        FROM replay_selection GROUP BY 1, 2
        """
    }

    /// The plan's deliveries or messages by category, the largest first.
    static func categories(_ request: ReplayRequest) -> SQL {
        "SELECT category, count(*) FROM replay_selection WHERE \(wanted(request)) GROUP BY 1 ORDER BY 2 DESC, 1"
    }

    /// The plan's time span, and how many messages the filter selected.
    static func span(_ request: ReplayRequest, hasSeveralHandlers: Bool) -> SQL {
        let selected: SQL =
            hasSeveralHandlers
            ? "(SELECT count(*) FROM (SELECT DISTINCT received_at, message_key FROM replay_selection) AS one)"
            : "(SELECT count(*) FROM replay_selection)"
        return "SELECT min(received_at), max(received_at), \(selected) FROM replay_selection WHERE \(wanted(request))"
    }

    /// The first three messages of the plan, and the last.
    static func sample(_ request: ReplayRequest) -> SQL {
        """
        SELECT \(MessagePage.columns)
        FROM (
            (SELECT DISTINCT received_at, message_key FROM replay_selection WHERE \(wanted(request))
            ORDER BY received_at, message_key LIMIT 3)
            UNION
            (SELECT received_at, message_key FROM replay_selection WHERE \(wanted(request))
            ORDER BY received_at DESC, message_key DESC LIMIT 1)
        ) AS edge
        CROSS JOIN LATERAL (
            SELECT * FROM upstream.message_of(edge.message_key, edge.received_at) OFFSET 0
        ) AS m
        ORDER BY edge.received_at, edge.message_key
        """
    }

    /// The rate of recent replays to targets of this kind whose pace was not limited, in messages per second.
    static func measuredRate(_ kind: String) -> SQL {
        """
        SELECT (sum(done) / sum(extract(epoch FROM finished_at - started_at)))::float8 FROM (
            SELECT done, started_at, finished_at FROM upstream.replays
            WHERE state = 'finished' AND kind = \(kind) AND done >= 1000 AND finished_at > started_at
                AND json_extract_path_text(options, 'pace', 'rate') IS NULL
                AND json_extract_path_text(options, 'pace', 'speed') IS NULL
            ORDER BY finished_at DESC LIMIT 10
        ) AS recent
        """
    }

    // MARK: Freezing

    static func insert(
        _ request: ReplayRequest,
        _ plan: ReplayPlan,
        selection: JSONColumn,
        options: JSONColumn
    ) -> SQL {
        let target = plan.target
        let onlyFailed = if case .handlers(_, let onlyFailed) = target { onlyFailed } else { false }
        return """
            INSERT INTO upstream.replays (
                name, kind, target, occupies, handlers, only_failed, selection, options, reason, created_by, planned,
                first_received_at, last_received_at
            ) VALUES (
                \(request.name), \(target.kind), \(target.description), \(target.occupies), \(target.handlers),
                \(onlyFailed), \(selection), \(options), \(request.author.reason), \(request.author.name), \(plan.planned),
                \(plan.span?.lowerBound), \(plan.span?.upperBound)
            )
            RETURNING replay_id
            """
    }

    static func freeze(_ id: Digest128, _ request: ReplayRequest) -> SQL {
        """
        INSERT INTO upstream.replay_messages (replay_id, chunk, received_at, message_key, handler)
        SELECT
            \(id), (place - 1) / \(ReplayPlanner.chunkSize), array_agg(received_at ORDER BY place),
            array_agg(message_key ORDER BY place),
            CASE WHEN count(handler) > 0 THEN array_agg(handler ORDER BY place) END
        FROM (
            SELECT received_at, message_key, handler,
                row_number() OVER (ORDER BY received_at, message_key, handler) AS place
            FROM replay_selection WHERE \(wanted(request))
        ) AS chosen
        GROUP BY 2
        """
    }
}

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
