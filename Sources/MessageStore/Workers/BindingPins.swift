package import Postgres
package import Vocabulary

/// A row of `upstream.channel_bindings`: a sender has signed in to this domain with channel binding.
package struct PinnedBinding: Sendable, Equatable {
    package var senderID: String
    package var domain: String
    /// The type of binding, such as `tls-exporter`.
    package var binding: String
    /// By the database's clock.
    package var pinnedAt: Timestamp
}

package enum BindingPins {
    package static func list(_ connection: isolated PostgresConnection) throws(PostgresError) -> [PinnedBinding] {
        try connection.run(BindingStatements.list).rows(PinnedBinding.init)
    }

    /// Pins a sender; the first binding stays.
    package static func add(
        _ connection: isolated PostgresConnection,
        _ senderID: String,
        _ domain: String,
        _ binding: String
    ) throws(PostgresError) {
        try connection.run(BindingStatements.add(senderID, domain, binding))
    }

    /// Deletes a sender's pins and records it, inside a transaction of the caller's; returns how many there were.
    package static func forget(
        _ connection: isolated PostgresConnection,
        _ senderID: String,
        by author: AuditAuthor
    ) throws(PostgresError) -> Int {
        let count = try connection.run(BindingStatements.forget(senderID)).affectedRows
        if count > 0 { try AuditLog.record(connection, .forgetPin, "sender \(senderID)", count: count, by: author) }
        return count
    }
}

enum BindingStatements {
    static let list: SQL = "SELECT sender_id, domain, binding, pinned_at FROM upstream.channel_bindings"

    static func add(_ senderID: String, _ domain: String, _ binding: String) -> SQL {
        """
        INSERT INTO upstream.channel_bindings (sender_id, domain, binding)
        VALUES (\(senderID), \(domain), \(binding)) ON CONFLICT DO NOTHING
        """
    }

    static func forget(_ senderID: String) -> SQL {
        "DELETE FROM upstream.channel_bindings WHERE sender_id = \(senderID)"
    }
}
