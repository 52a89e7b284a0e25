import Postgres
import Querying
import Vocabulary

/// The statements that read frozen selections.
enum SelectionStatements: StatementCatalog {
    /// A span of a selection, within the chunk that it begins in.
    struct Span: Sendable {
        var replay: Digest128
        var start: Int64
        var limit: Int64
    }

    /// The messages of a span.
    ///
    /// `OFFSET 0` makes each a lookup by primary key: the planner can't know how few rows there are, and must not scan
    /// whole days.
    static let messages: PreparedStatement<Span> = statement(
        "\(MessagePage.columns().text), chosen.received_at AS selected_at, chosen.place",
        join: """
            LEFT JOIN LATERAL (
                SELECT * FROM upstream.messages AS m
                WHERE m.received_at = chosen.received_at AND m.message_key = chosen.message_key
                OFFSET 0
            ) AS m ON true
            """
    )

    /// The `received_at` of the messages of a span.
    static let times: PreparedStatement<Span> = statement("chosen.received_at", join: "")

    private static func statement(_ columns: String, join: String) -> PreparedStatement<Span> {
        """
        SELECT \(raw: columns)
        FROM (
            SELECT r.chunk::int8 * \(raw: chunk) + t.number - 1 AS place, t.received_at, t.message_key
            FROM upstream.replay_messages AS r
            CROSS JOIN LATERAL unnest(r.received_at, r.message_key)
                WITH ORDINALITY AS t (received_at, message_key, number)
            WHERE r.replay_id = \(\.replay) AND r.chunk = (\(\.start) / \(raw: chunk))::int4
        ) AS chosen
        \(raw: join)
        WHERE chosen.place >= \(\.start) AND chosen.place < \(\.start) + \(\.limit)
        ORDER BY chosen.place
        """
    }

    private static let chunk = String(ReplayPlanner.chunkSize)

    static var samples: [StatementSample] {
        [StatementSample("messages", messages), StatementSample("times", times)]
    }
}
