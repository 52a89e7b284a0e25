import MessageStore
import Postgres
import Querying
import Vocabulary

/// The statements that read frozen selections.
enum SelectionStatements {
    /// A span of a selection, within its first chunk.
    struct Span: Sendable {
        var replay: Digest128
        var start: Int64
        var limit: Int64
    }

    /// The most bytes read at once, not counting the last message.
    private static let mostBytes = 4 << 20

    /// The first messages of a span: as many as fit, at least one.
    ///
    /// `OFFSET 0` makes each a lookup by primary key: the planner can't know how few rows there are, and must not scan
    /// whole days.
    static let messages: PreparedStatement<Span> = """
        SELECT \(raw: MessagePage.columns.text), m.selected_at, m.place FROM (
            SELECT m.*, chosen.received_at AS selected_at, chosen.place,
                coalesce(sum(m.size) OVER (
                    ORDER BY chosen.place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), 0) AS before
            FROM (\(chosen)) AS chosen LEFT JOIN LATERAL (
                SELECT *, \(raw: MessageSize.sql) AS size FROM upstream.messages AS m
                WHERE m.received_at = chosen.received_at AND m.message_key = chosen.message_key
                OFFSET 0
            ) AS m ON true
        ) AS m WHERE m.before < \(raw: "\(mostBytes)") ORDER BY m.place
        """

    static let times: PreparedStatement<Span> = "SELECT received_at FROM (\(chosen)) AS chosen ORDER BY place"

    private static let chosen: PreparedStatement<Span> = """
        SELECT * FROM (
            SELECT r.chunk::int8 * \(raw: chunk) + t.number - 1 AS place, t.received_at, t.message_key
            FROM upstream.replay_messages AS r
            CROSS JOIN LATERAL unnest(r.received_at, r.message_key)
                WITH ORDINALITY AS t (received_at, message_key, number)
            WHERE r.replay_id = \(\.replay) AND r.chunk = (\(\.start) / \(raw: chunk))::int4
        ) AS span
        WHERE place >= \(\.start) AND place < \(\.start) + \(\.limit)
        """

    private static let chunk = String(ReplayPlanner.chunkSize)
}
