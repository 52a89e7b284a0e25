import MessageStore
import Postgres
import UpstreamKit
import Vocabulary

// What people do, each in a transaction of its own.

extension HandlerStates {
    func pause(_ name: String, for length: Duration?, by author: AuditAuthor) async throws -> Pause? {
        try await connection.inTransaction { connection throws(PostgresError) in
            try Self.pause(connection, name, for: length, by: author)
        }
    }

    func resume(_ name: String, by author: AuditAuthor) async throws -> Bool {
        try await connection.inTransaction { connection throws(PostgresError) in
            try Self.resume(connection, name, by: author)
        }
    }
}

extension ConflictRelease {
    static func release(
        _ key: MessageKey,
        fingerprint: Digest128,
        by author: AuditAuthor,
        _ connection: PostgresConnection
    ) async throws -> Outcome {
        try await connection.inTransaction { connection throws(PostgresError) in
            try release(connection, key, fingerprint: fingerprint, by: author)
        }
    }
}

extension DeadLetters {
    func retry(_ filter: DeadLetterFilter, limit: Int = 1_000, by author: AuditAuthor) async throws -> Int {
        try await BulkAction(.dead(.retry, filter), total: limit, by: author).run(over: connection)
    }

    func discard(_ filter: DeadLetterFilter, limit: Int = 1_000, by author: AuditAuthor) async throws -> Int {
        try await BulkAction(.dead(.discard, filter), total: limit, by: author).run(over: connection)
    }
}
