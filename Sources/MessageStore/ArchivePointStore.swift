package import Ingest
package import Postgres
package import Vocabulary

/// How far each archive was read, in `upstream.archive_points`; its session is open while an archive is read.
package final class ArchivePointStore: ArchivePoints {
    private let client: PostgresClient

    package init(_ settings: PostgresSettings) {
        var settings = settings
        settings.statementTimeout = 4_000
        // A claim waits for no other.
        settings.lockTimeout = 1_000
        client = PostgresClient(settings)
    }

    package func claim(sender: String, archive: String, reader: String) async throws(StoreError) -> ArchiveClaim {
        let claim = try await run { connection throws(PostgresError) -> ArchiveClaim in
            let found = try connection.run(ArchiveStatements.claim(sender, archive, reader)).rows {
                (isFirst: Bool, id: String?, time: Timestamp?) in
                isFirst ? ArchiveClaim.first : .from(ArchivePoint(id: id, time: time))
            }
            return found.first ?? .taken
        }
        if claim == .taken { await client.close() }
        return claim
    }

    package func save(
        _ point: ArchivePoint,
        sender: String,
        archive: String,
        reader: String,
        end: ArchiveEnd?
    ) async throws(StoreError) -> Bool {
        let isSaved = try await run { connection throws(PostgresError) in
            try !connection.run(ArchiveStatements.save(point, sender, archive, reader, end)).rows { $0 as Bool }.isEmpty
        }
        if end != nil { await client.close() }
        return isSaved
    }

    package func close() async { await client.close() }

    private func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(StoreError) -> T {
        do throws(PostgresError) { return try await client.run(body) } catch { throw StoreError(error) }
    }
}

enum ArchiveStatements {
    /// How long a reader that says nothing keeps the others away.
    private static let lease = "interval '1 minute'"
    /// The place of an archive that holds nothing: it gets all that comes, by a server whose clock is behind as well.
    private static let beginning = "now() - interval '1 day'"
    /// What is older may have left the ledger, and would be stored again; a day less, as the server's clock may differ.
    private static let earliest = """
        now() - coalesce((SELECT dedupe_window FROM upstream.retention_policy), interval '28 days') + interval '1 day'
        """

    /// Takes the lease if it is free, and reads the point.
    static func claim(_ sender: String, _ archive: String, _ reader: String) -> SQL {
        """
        INSERT INTO upstream.archive_points AS p (sender_id, archive, reader, leased_until)
        VALUES (\(sender), \(archive), \(reader), now() + \(raw: lease))
        ON CONFLICT (sender_id, archive) DO UPDATE
        SET reader = excluded.reader, leased_until = excluded.leased_until
        WHERE p.leased_until IS NULL OR p.leased_until < now() OR p.reader = excluded.reader
        RETURNING
            p.archived_at IS NULL, CASE WHEN p.archived_at >= \(raw: earliest) THEN p.archive_id END,
            greatest(p.archived_at, \(raw: earliest))
        """
    }

    static func save(
        _ point: ArchivePoint,
        _ sender: String,
        _ archive: String,
        _ reader: String,
        _ end: ArchiveEnd?
    ) -> SQL {
        // Where an operator sets `archived_at` back, it is read from there.
        let place: SQL = "least(coalesce(\(point.time), archived_at, \(raw: beginning)), now())"
        return """
            UPDATE upstream.archive_points SET
                archive_id = \(point.id),
                archived_at = \(place),
                begun_at = CASE
                    WHEN archived_at IS NULL THEN \(place)
                    WHEN begun_at IS NULL OR archive_id IS NULL
                    THEN least(begun_at, greatest(archived_at, \(raw: earliest)))
                    ELSE begun_at END,
                leased_until = CASE WHEN \(end == nil) THEN now() + \(raw: lease) END,
                caught_up_at = CASE WHEN \(end == .complete) THEN now() ELSE caught_up_at END
            WHERE sender_id = \(sender) AND archive = \(archive) AND reader = \(reader)
            RETURNING true
            """
    }
}
