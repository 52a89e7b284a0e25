import Foundation
import MessageStore
package import Postgres
import Querying

/// Freezes selections.
///
/// The filter is evaluated once, in one statement: what is committed later never joins in, and the counts that people
/// see are those of the very rows that are frozen.
package struct ReplayPlanner: Sendable {
    private let connection: PostgresConnection

    /// How many messages a row of `replay_messages` holds.
    static let chunkSize: Int64 = 1_000

    /// A planner for the database that the connection leads to; its time limit for statements bounds a plan.
    package init(_ connection: PostgresConnection) { self.connection = connection }

    /// Freezes what is asked for.
    ///
    /// - Parameters:
    ///   - request: What is asked for.
    ///   - isDryRun: Whether to count and to keep nothing.
    /// - Throws: ``ReplayError`` where it can't be planned; ``PostgresError``.
    /// - Returns: What the plan holds; without an id where nothing was kept.
    package func plan(_ request: ReplayRequest, isDryRun: Bool = false) async throws -> ReplayPlan {
        let outcome: Result<ReplayPlan, ReplayError> = try await connection.run { connection throws(PostgresError) in
            try connection.script("BEGIN")
            let outcome: Result<ReplayPlan, ReplayError>
            do throws(PostgresError) {
                outcome = try Planning(request: request, isDryRun: isDryRun).run(connection)
            } catch {
                if connection.isInTransaction { try connection.script("ROLLBACK") }
                throw error
            }
            let isKept = if case .success = outcome { !isDryRun } else { false }
            try connection.script(isKept ? "COMMIT" : "ROLLBACK")
            return outcome
        }
        return try outcome.get()
    }
}

/// One plan, inside its transaction.
private struct Planning {
    let request: ReplayRequest
    let isDryRun: Bool

    func run(_ connection: isolated PostgresConnection) throws(PostgresError) -> Result<ReplayPlan, ReplayError> {
        if try isTaken(connection) { return .failure(taken) }
        let target: ReplayTarget
        switch try resolve(connection) {
        case .failure(let error): return .failure(error)
        case .success(let resolved): target = resolved
        }
        try select(connection, target)
        var plan = try counts(connection, target)
        plan.sample = try sample(connection)
        (plan.estimate, plan.isMeasured) = try estimate(connection, plan)
        guard !isDryRun, plan.planned > 0 else { return .success(plan) }
        do throws(PostgresError) {
            plan.id = try freeze(connection, plan)
        } catch  where error.constraint == "replays_name_key" {
            return .failure(taken)
        }
        return .success(plan)
    }

    private var taken: ReplayError {
        ReplayError(
            .refused,
            "there is a replay '\(request.name)' that has not ended: choose another name, or cancel it"
        )
    }

    private func isTaken(_ connection: isolated PostgresConnection) throws(PostgresError) -> Bool {
        guard !isDryRun else { return false }
        var parameters = PostgresParameters()
        parameters.append(request.name)
        return try connection.query(
            """
            SELECT FROM upstream.replays
            WHERE name = $1 AND state IN ('planned', 'running', 'paused', 'failed') LIMIT 1
            """,
            parameters
        ).count > 0
    }

    /// Finds out which handlers are meant.
    private func resolve(
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Result<ReplayTarget, ReplayError> {
        guard case .handlers(let wanted, let standing) = request.target else {
            guard case .other(let target) = request.target else { return .failure(ReplayError(.invalid, "no target")) }
            return .success(target)
        }
        let result = try connection.query("SELECT name FROM upstream.handlers ORDER BY name")
        let known = (0..<result.count).compactMap { result.text($0, 0) }
        if let stranger = wanted.first(where: { !known.contains($0) }) {
            let list = known.isEmpty ? "none has been registered yet" : "there are " + known.joined(separator: ", ")
            return .failure(ReplayError(.unknown, "no handler '\(stranger)' is registered: \(list)"))
        }
        guard !known.isEmpty else {
            return .failure(
                ReplayError(.unknown, "no handler is registered: a worker registers those of its configuration")
            )
        }
        let names = wanted.isEmpty ? known : known.filter(wanted.contains)
        return .success(.handlers(names, onlyFailed: standing == .onlyFailed))
    }

    /// Evaluates the filter into a temporary table: the only look at `messages` as they are now.
    private func select(
        _ connection: isolated PostgresConnection,
        _ target: ReplayTarget
    ) throws(PostgresError) {
        try connection.script(
            """
            CREATE TEMPORARY TABLE replay_selection (
                received_at timestamptz, message_key uuid, category text, handler smallint, standing "char"
            ) ON COMMIT DROP
            """
        )
        let condition = request.filter.condition()
        guard case .handlers(let list, _) = target else {
            try connection.run(
                """
                INSERT INTO replay_selection
                SELECT received_at, message_key, category, NULL, 'm' FROM upstream.messages AS m WHERE \(condition)
                """
            )
            return
        }
        let isNamed = if case .handlers(let wanted, _) = request.target { !wanted.isEmpty } else { false }
        let match: SQL =
            isNamed
            ? "true"
            : """
            EXISTS (
                SELECT FROM upstream.subscriptions AS s
                WHERE s.handler = h.name AND (s.category = m.category OR s.category = '*')
            )
            """
        // A dead letter keeps its message when the day goes.
        try connection.run(
            """
            INSERT INTO replay_selection
            SELECT
                m.received_at, m.message_key, m.category, array_position(\(list), x.handler)::smallint,
                CASE WHEN d.message_key IS NOT NULL THEN 'p' ELSE 'x' END
            FROM upstream.dead_messages AS m
            JOIN upstream.dead_letters AS x ON x.message_key = m.message_key AND x.handler = ANY (\(list))
            JOIN upstream.handlers AS h ON h.name = x.handler AND \(match)
            LEFT JOIN upstream.deliveries AS d ON d.message_key = m.message_key AND d.handler = x.handler
            WHERE \(condition) AND NOT EXISTS (
                SELECT FROM upstream.messages AS day
                WHERE day.received_at = m.received_at AND day.message_key = m.message_key)
            """
        )
        // p: waits already, x: dead letter, n: from before the handler, h: it has had it.
        try connection.run(
            """
            INSERT INTO replay_selection
            SELECT
                m.received_at, m.message_key, m.category, h.place,
                CASE
                    WHEN d.message_key IS NOT NULL THEN 'p' WHEN x.message_key IS NOT NULL THEN 'x'
                    WHEN m.received_at < h.registered_at THEN 'n' ELSE 'h'
                END
            FROM upstream.messages AS m
            JOIN (
                SELECT name, registered_at, array_position(\(list), name)::smallint AS place
                FROM upstream.handlers WHERE name = ANY (\(list))
            ) AS h ON \(match)
            LEFT JOIN upstream.deliveries AS d ON d.message_key = m.message_key AND d.handler = h.name
            LEFT JOIN upstream.dead_letters AS x ON x.message_key = m.message_key AND x.handler = h.name
            WHERE \(condition)
            """
        )
    }

    /// The standings that the plan takes in.
    private var wanted: String {
        guard case .handlers(_, let standing) = request.target else { return "standing = 'm'" }
        switch standing {
        case .onlyFailed: return "standing = 'x'"
        case .notHandled: return "standing IN ('x', 'n')"
        case .all: return "standing IN ('x', 'n', 'h')"
        }
    }

    private func counts(
        _ connection: isolated PostgresConnection,
        _ target: ReplayTarget
    ) throws(PostgresError) -> ReplayPlan {
        let names = if case .handlers(let names, _) = target { names } else { [String]() }
        var handlers = names.map { ReplayPlan.HandlerCounts(handler: $0) }
        var planned: Int64 = 0
        let standings = try connection.query(
            """
            SELECT handler::int8, standing::text, count(*), sum((\(wanted))::int)::int8
            FROM replay_selection GROUP BY 1, 2
            """
        )
        for row in 0..<standings.count {
            let count = standings.integer(row, 2) ?? 0
            planned += standings.integer(row, 3) ?? 0
            guard let place = standings.integer(row, 0).map({ Int($0) - 1 }), handlers.indices.contains(place) else {
                continue
            }
            handlers[place].planned += standings.integer(row, 3) ?? 0
            switch standings.text(row, 1) {
            case "p": handlers[place].pending = count
            case "x": handlers[place].dead = count
            case "n": handlers[place].new = count
            default: handlers[place].handled = count
            }
        }
        let categories = try connection.query(
            "SELECT category, count(*) FROM replay_selection WHERE \(wanted) GROUP BY 1 ORDER BY 2 DESC, 1"
        )
        var counted = (0..<categories.count).map {
            ReplayPlan.Count(name: categories.text($0, 0) ?? "", count: categories.integer($0, 1) ?? 0)
        }
        if counted.count > 10 {
            let rest = counted[9...]
            counted =
                counted.prefix(9)
                + [.init(name: "\(rest.count) others", count: rest.reduce(0) { $0 + $1.count })]
        }
        let selected =
            names.count > 1
            ? "(SELECT count(*) FROM (SELECT DISTINCT received_at, message_key FROM replay_selection) AS one)"
            : "(SELECT count(*) FROM replay_selection)"
        let span = try connection.query(
            "SELECT min(received_at), max(received_at), \(selected) FROM replay_selection WHERE \(wanted)"
        )
        return ReplayPlan(
            id: nil,
            name: request.name,
            target: target,
            pace: request.pace,
            selected: span.integer(0, 2) ?? 0,
            planned: planned,
            span: span.timestamp(0, 0).flatMap { first in span.timestamp(0, 1).map { first...$0 } },
            categories: counted,
            handlers: handlers,
            sample: [],
            estimate: 0,
            isMeasured: false
        )
    }

    private func sample(_ connection: isolated PostgresConnection) throws(PostgresError) -> [StoredMessage] {
        let result = try connection.run(
            """
            SELECT \(MessagePage.columns())
            FROM (
                (SELECT DISTINCT received_at, message_key FROM replay_selection WHERE \(raw: wanted)
                ORDER BY received_at, message_key LIMIT 3)
                UNION
                (SELECT received_at, message_key FROM replay_selection WHERE \(raw: wanted)
                ORDER BY received_at DESC, message_key DESC LIMIT 1)
            ) AS edge
            CROSS JOIN LATERAL (
                SELECT * FROM upstream.message_of(edge.message_key, edge.received_at) OFFSET 0
            ) AS m
            ORDER BY edge.received_at, edge.message_key
            """
        )
        return try MessagePage(result).messages
    }

    /// How long it will take: by the wished pace, and by what replays of this kind came to before.
    private func estimate(
        _ connection: isolated PostgresConnection,
        _ plan: ReplayPlan
    ) throws(PostgresError) -> (Double, Bool) {
        var parameters = PostgresParameters()
        parameters.append(plan.target.kind)
        let result = try connection.query(
            """
            SELECT (sum(done) / sum(extract(epoch FROM finished_at - started_at)))::float8::text FROM (
                SELECT done, started_at, finished_at FROM upstream.replays
                WHERE state = 'finished' AND kind = $1 AND done >= 1000 AND finished_at > started_at
                    AND json_extract_path_text(options, 'pace', 'rate') IS NULL
                    AND json_extract_path_text(options, 'pace', 'speed') IS NULL
                ORDER BY finished_at DESC LIMIT 10
            ) AS recent
            """,
            parameters
        )
        let measured = result.text(0, 0).flatMap(Double.init)
        let guess: Double =
            switch plan.target {
            case .handlers: 2_000
            case .output: 20_000
            case .endpoint: 1_000
            }
        var seconds = Double(plan.planned) / max(measured ?? guess, 1)
        if let rate = plan.pace.rate { seconds = max(seconds, Double(plan.planned) / rate) }
        if let speed = plan.pace.speed, let span = plan.span {
            seconds = max(seconds, Double(span.upperBound - span.lowerBound) / 1e6 / speed)
        }
        return (seconds, measured != nil)
    }

    private func freeze(
        _ connection: isolated PostgresConnection,
        _ plan: ReplayPlan
    ) throws(PostgresError) -> String {
        let handlers = if case .handlers(let names, _) = plan.target { names } else { [String]() }
        let onlyFailed = if case .handlers(_, let onlyFailed) = plan.target { onlyFailed } else { false }
        var parameters = PostgresParameters()
        parameters.append(request.name)
        parameters.append(plan.target.kind)
        parameters.append(plan.target.description)
        parameters.append(texts: plan.target.occupies)
        parameters.append(texts: handlers)
        parameters.append(onlyFailed)
        parameters.append(try filterText())
        parameters.append(try ReplayTable.options(plan.target, plan.pace))
        parameters.append(optional: request.reason)
        parameters.append(request.who)
        parameters.append(plan.planned)
        parameters.append(optionalTime: plan.span?.lowerBound)
        parameters.append(optionalTime: plan.span?.upperBound)
        let result = try connection.query(
            """
            INSERT INTO upstream.replays (
                name, kind, target, occupies, handlers, only_failed, selection, options, reason, created_by, planned,
                first_received_at, last_received_at
            ) VALUES ($1, $2, $3, $4, $5, $6, $7::json, $8::json, $9, $10, $11, $12, $13)
            RETURNING replay_id::text
            """,
            parameters
        )
        let id = result.text(0, 0) ?? ""
        var selection = PostgresParameters()
        selection.append(id)
        selection.append(ReplayPlanner.chunkSize)
        _ = try connection.query(
            """
            INSERT INTO upstream.replay_messages (replay_id, chunk, received_at, message_key, handler)
            SELECT
                $1::text::uuid, (place - 1) / $2, array_agg(received_at ORDER BY place),
                array_agg(message_key ORDER BY place),
                CASE WHEN count(handler) > 0 THEN array_agg(handler ORDER BY place) END
            FROM (
                SELECT received_at, message_key, handler,
                    row_number() OVER (ORDER BY received_at, message_key, handler) AS place
                FROM replay_selection WHERE \(wanted)
            ) AS chosen
            GROUP BY 2
            """,
            selection
        )
        try ReplayTable.note(connection, id, "planned", who: request.who, detail: request.reason)
        return id
    }

    private func filterText() throws(PostgresError) -> String {
        do {
            return String(decoding: try JSONEncoder().encode(request.filter), as: UTF8.self)
        } catch {
            throw PostgresError(.other, "the filter can't be written as JSON")
        }
    }
}
