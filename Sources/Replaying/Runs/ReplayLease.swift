import Postgres
import Vocabulary

/// The right to run a replay, held by one process at a time.
///
/// The fencing token grows with each take-over, and every step of a runner in the database names its token. So a runner
/// that was suspended, and whose lease another has taken since, changes nothing.
package struct ReplayLease: Sendable {
    let replay: Digest128
    let owner: String
    let token: Int64
    /// How long it is valid unless it is renewed.
    let length: Duration

    package struct Position: Sendable, Equatable {
        package var done: Int64
        package var skipped: Int64
        package var bytes: Int64

        package init(done: Int64, skipped: Int64, bytes: Int64) {
            (self.done, self.skipped, self.bytes) = (done, skipped, bytes)
        }
    }

    enum Acquisition: Sendable {
        case taken(ReplayLease, Position)
        case refused(ReplayRunner.Ending)
    }

    /// Takes the lease of a running replay that no process holds.
    static func take(
        _ connection: isolated PostgresConnection,
        _ replay: Digest128,
        owner: String,
        length: Duration
    ) throws(PostgresError) -> Acquisition {
        try connection.transaction { connection throws(PostgresError) in
            let taken = try connection.run(LeaseStatements.take(replay, owner: owner, length: length)).first {
                row throws(PostgresError) in
                let lease = ReplayLease(replay: replay, owner: owner, token: try row.next(), length: length)
                return (lease, Position(done: try row.next(), skipped: try row.next(), bytes: try row.next()))
            }
            if let taken {
                try connection.run(ReplayStatements.note(replay, "taken", who: owner, detail: nil))
                return .taken(taken.0, taken.1)
            }
            guard let holder = try holder(connection, replay) else { return .refused(.stopped(.cancelled)) }
            guard holder.state == .running else { return .refused(.stopped(holder.state)) }
            return .refused(.held(by: holder.owner ?? "another process", until: holder.until))
        }
    }

    private struct Holder {
        var state: ReplayState
        var token: Int64
        var owner: String?
        var until: Timestamp?
    }

    private static func holder(
        _ connection: isolated PostgresConnection,
        _ replay: Digest128
    ) throws(PostgresError) -> Holder? {
        try connection.run(LeaseStatements.holder(of: replay)).firstRow(Holder.init)
    }

    /// Renews the lease, with the position if it has changed; returns why the run has to end, if it has.
    ///
    /// A paused replay accepts a position too, so that what was sent before the pause was noticed is not lost.
    func renew(
        _ connection: isolated PostgresConnection,
        _ position: Position?
    ) throws(PostgresError) -> ReplayRunner.Ending? {
        let renewed = try connection.run(LeaseStatements.renew(self, position))
        guard let state = try renewed.rows(as: ReplayState.self).first else { return try loss(connection) }
        return state == .running ? nil : .stopped(state)
    }

    func outputMark(_ connection: isolated PostgresConnection) throws(PostgresError) -> OutputMark {
        let text = try connection.run(LeaseStatements.files(self)).rows(as: String?.self).first
        return OutputMark(text ?? nil)
    }

    /// Stores which files belong to the replay; no later run continues files written under a lost lease.
    func note(_ connection: isolated PostgresConnection, _ mark: OutputMark) throws(PostgresError) {
        try connection.run(LeaseStatements.setFiles(self, mark.text))
    }

    /// Why a fenced statement met no row.
    func loss(_ connection: isolated PostgresConnection) throws(PostgresError) -> ReplayRunner.Ending {
        guard let found = try Self.holder(connection, replay) else { return .stopped(.cancelled) }
        return found.token == token && found.state != .running ? .stopped(found.state) : .lost
    }

    func release(_ connection: isolated PostgresConnection) throws(PostgresError) {
        try connection.run(LeaseStatements.release(self))
    }

    /// Ends the run: as finished if everything is done, or as failed with an error.
    ///
    /// - Returns: Whether the lease was still valid.
    func end(_ connection: isolated PostgresConnection, error: String?) throws(PostgresError) -> Bool {
        try connection.transaction { connection throws(PostgresError) in
            guard try connection.run(LeaseStatements.end(self, error: error)).count == 1 else { return false }
            let event = error == nil ? "finished" : "failed"
            try connection.run(ReplayStatements.note(replay, event, who: owner, detail: error))
            return true
        }
    }
}

extension ReplayState: SQLDecodable {}
