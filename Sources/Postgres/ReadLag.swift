import Vocabulary

/// How old is what a reading session sees.
package struct ReadLag: Sendable, Equatable {
    /// Whether the server is a standby.
    package var isStandby: Bool
    /// How far it is behind the primary, in seconds from 0; nil if it does not tell.
    package var seconds: Double?
    /// The end of what the standby has replayed, as a position in the primary's log; nil if it does not tell.
    package var position: Int64?

    package init(isStandby: Bool, seconds: Double?, position: Int64? = nil) {
        (self.isStandby, self.seconds, self.position) = (isStandby, seconds, position)
    }

    /// `read from a standby, 1.2 s behind`; nil for the primary.
    package var note: String? {
        guard isStandby else { return nil }
        return "read from a standby, " + (seconds.map { Amount.time($0) + " behind" } ?? "which does not tell its lag")
    }

    /// `1.2`, `0` where it has everything or is the primary, `unknown` if the standby does not tell.
    package var field: String { seconds.map { Amount.decimal($0).filter { $0 != "," } } ?? "unknown" }

    /// Of two answers to one reader the older one.
    package func older(_ other: ReadLag) -> ReadLag {
        (seconds ?? .infinity) < (other.seconds ?? .infinity) || !isStandby ? other : self
    }

    /// When the last transaction that a standby has replayed ended on the primary; after a restart that replayed none,
    /// when its last checkpoint began there.
    package static let replayedUntil: SQL = """
        coalesce(pg_last_xact_replay_timestamp(), (SELECT checkpoint_time FROM pg_control_checkpoint()))
        """

    /// Whether it is a standby, how far behind, and its position.
    ///
    /// While the primary is idle the last transaction grows old: a connected standby that has replayed all it received
    /// is not behind. Without a connection nobody knows what is missing.
    fileprivate static let ask: SQL = """
        SELECT
            pg_is_in_recovery(),
            CASE
                WHEN NOT pg_is_in_recovery() THEN 0
                WHEN pg_last_wal_receive_lsn() <= pg_last_wal_replay_lsn()
                    AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0
                ELSE greatest(extract(epoch FROM clock_timestamp() - \(replayedUntil)), 0)
            END::float8,
            (pg_last_wal_replay_lsn() - '0/0')::int8
        """
}

extension PostgresConnection {
    /// Asks how far the server is behind the primary.
    package func readLag() throws(PostgresError) -> ReadLag {
        do throws(PostgresError) {
            return try run(ReadLag.ask).onlyRow(ReadLag.init)
        } catch  where [.schema, .permission].contains(error.failureClass) {
            // Some providers' standbys lack a function.
            return ReadLag(isStandby: try run("SELECT pg_is_in_recovery()").value(), seconds: nil)
        }
    }

    /// The primary's position, up to which a standby must have replayed to show what was done here.
    package func writePosition() throws(PostgresError) -> Int64 {
        try run("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8").value()
    }

    /// Asks how far the server is behind the primary, and again after a second if that is more than one.
    ///
    /// Where the primary was idle for long, its first commit seems as old as the last.
    package nonisolated func settledLag() async throws(PostgresError) -> ReadLag {
        let lag = try await readLag()
        guard let seconds = lag.seconds, seconds > 1 else { return lag }
        try? await Task.sleep(for: .seconds(1))
        return try await readLag()
    }

    /// Asks how far the server is behind the primary.
    package nonisolated func readLag() async throws(PostgresError) -> ReadLag {
        try await run { connection throws(PostgresError) in try connection.readLag() }
    }
}
