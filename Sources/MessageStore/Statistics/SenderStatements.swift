import Postgres

enum SenderStatements: StatementCatalog {
    /// The senders with messages, by id.
    static let list: SQL = """
        SELECT sender_id, array_agg(id_scope ORDER BY id_scope) FROM upstream.senders
        GROUP BY sender_id ORDER BY sender_id LIMIT 10000
        """

    static var samples: [StatementSample] { [StatementSample("list", list)] }
}
