import Postgres

enum DevStatements {
    /// Counts the stored messages of a run; a receipt's id is `dr2:` and the id of its message.
    static func stored(idPattern pattern: String) -> SQL {
        "SELECT count(*) FROM upstream.messages WHERE message_id LIKE \(pattern) OR message_id LIKE 'dr2:' || \(pattern)"
    }
}
