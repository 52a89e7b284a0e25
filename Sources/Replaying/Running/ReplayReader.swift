import Postgres
import Querying
import UpstreamKit

/// One message of a replay's selection, on its way to a target.
struct ReplayItem: Sendable {
    /// Its place in the selection, from 0.
    var position: Int64
    /// When it came: microseconds since 1970-01-01 UTC.
    var receivedAt: Int64
    /// The rows that it was read with.
    var page: MessagePage
    /// Its row among them.
    var row: Int

    /// Whether its body is gone: retention or `forget` has taken it since the replay was planned.
    var isGone: Bool { page.cursor(row) == nil }
}

extension ReplayItem {
    /// The message; nil if its body is gone.
    ///
    /// - Throws: ``ReplayError`` if the row is not that of a message.
    func message() throws(ReplayError) -> UpstreamMessage? {
        guard !isGone else { return nil }
        do throws(PostgresError) {
            return try page.message(row).message
        } catch {
            throw ReplayError(.invalid, "can't read a message of the replay: \(error)")
        }
    }
}

/// Reads selections with their messages.
enum ReplayReader {
    /// Looks each message up by its primary key.
    ///
    /// `OFFSET 0` keeps it a look-up: the planner can't know how few rows there are, and must not read whole days.
    static func join(to row: String) -> String {
        """
        LEFT JOIN LATERAL (
            SELECT * FROM upstream.messages AS m
            WHERE m.received_at = \(row).received_at AND m.message_key = \(row).message_key
            OFFSET 0
        ) AS m ON true
        """
    }

    private static let items = PostgresStatement(
        """
        SELECT \(MessagePage.columns().text), chosen.received_at, chosen.place
        FROM (
            SELECT r.chunk::int8 * $4 + t.number - 1 AS place, t.received_at, t.message_key
            FROM upstream.replay_messages AS r
            CROSS JOIN LATERAL unnest(r.received_at, r.message_key)
                WITH ORDINALITY AS t (received_at, message_key, number)
            WHERE r.replay_id = $1::text::uuid AND r.chunk = ($2::int8 / $4)::int4
        ) AS chosen
        \(join(to: "chosen"))
        WHERE chosen.place >= $2 AND chosen.place < $2 + $3
        ORDER BY chosen.place
        """
    )

    /// The messages from a place on: `limit` at most, and not beyond the chunk that the place is in.
    static func read(
        _ connection: isolated PostgresConnection,
        _ replay: String,
        from position: Int64,
        limit: Int64
    ) throws(PostgresError) -> [ReplayItem] {
        let result = try connection.execute(items, parameters(replay, position, limit))
        let page = try MessagePage(result)
        let columns = MessagePage.Column.allCases.count
        return (0..<result.count).map { row in
            ReplayItem(
                position: result.integer(row, columns + 1) ?? 0,
                receivedAt: result.timestamp(row, columns) ?? 0,
                page: page,
                row: row
            )
        }
    }

    private static let timesOnly = PostgresStatement(
        """
        SELECT chosen.received_at
        FROM (
            SELECT r.chunk::int8 * $4 + t.number - 1 AS place, t.received_at
            FROM upstream.replay_messages AS r
            CROSS JOIN LATERAL unnest(r.received_at) WITH ORDINALITY AS t (received_at, number)
            WHERE r.replay_id = $1::text::uuid AND r.chunk = ($2::int8 / $4)::int4
        ) AS chosen
        WHERE chosen.place >= $2 AND chosen.place < $2 + $3
        ORDER BY chosen.place
        """
    )

    /// The `received_at` of the messages from a place on, likewise.
    static func times(
        _ connection: isolated PostgresConnection,
        _ replay: String,
        from position: Int64,
        limit: Int64
    ) throws(PostgresError) -> [Int64] {
        let result = try connection.execute(timesOnly, parameters(replay, position, limit))
        return (0..<result.count).map { result.timestamp($0, 0) ?? 0 }
    }

    private static func parameters(_ replay: String, _ position: Int64, _ limit: Int64) -> PostgresParameters {
        var parameters = PostgresParameters()
        parameters.append(replay)
        parameters.append(position)
        parameters.append(limit)
        parameters.append(ReplayPlanner.chunkSize)
        return parameters
    }
}
