package import Postgres
import Querying
import Synchronization
import Vocabulary

/// Where the console reads what is stored: at a standby, if `database.read_url` names one, else at the primary.
///
/// Never at the primary instead of a standby that is down: it would get the load that the standby was to take. But who
/// has acted reads there until the standby has replayed that, at most for ``RecentActs/lasting``.
package struct ConsoleReader: Sendable {
    let pool: ReadPool
    /// Where readers read what they did; nil if `pool` is of the primary.
    private let primary: ReadPool?
    private let acts = RecentActs()

    init(_ pool: ReadPool, primary: ReadPool? = nil) { (self.pool, self.primary) = (pool, primary) }

    /// Runs statements on a free session; see ``ReadPool/run(_:_:)``.
    package func run<T: Sendable>(
        _ use: ReadShares.Use = .look,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        guard let primary else { return try await pool.run(use, body) }
        let found: T?
        do throws(PostgresError) {
            found = try await pool.run(use) { connection throws(PostgresError) -> T? in
                guard try hasActs(connection) else { return nil }
                return try body(connection)
            }
        } catch {
            throw error.ofReader
        }
        if let found { return found }
        return try await primary.run(use, body)
    }

    /// Lends a session; see ``ReadPool/withConnection(_:_:)``.
    package func withConnection<T: Sendable>(
        _ use: ReadShares.Use = .look,
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        guard let primary else { return try await pool.withConnection(use, body) }
        let found: T?
        do {
            found = try await pool.withConnection(use) { connection -> T? in
                guard try await connection.run({ try hasActs($0) }) else { return nil }
                return try await body(connection)
            }
        } catch let error as PostgresError {
            throw error.ofReader
        }
        if let found { return found }
        return try await primary.withConnection(use, body)
    }

    /// Reads the next page of messages, and takes the session back before anything is sent.
    func next(_ pager: MessagePager) async throws -> (pager: MessagePager, page: MessagePage) {
        try await withConnection(.search) { connection in
            var pager = pager
            let page = try await pager.next(connection)
            return (pager, page)
        }
    }

    /// Notes that this task's reader has changed something that the session has committed.
    func acted(_ connection: isolated PostgresConnection) {
        guard primary != nil else { return }
        // Without the position the standby's lag is all that readers are told; the change itself is done.
        if let position = try? connection.writePosition() { acts.note(position, by: ReadPool.reader) }
    }

    /// Whether a session shows all that this task's reader did; notes its lag if so.
    private func hasActs(_ connection: isolated PostgresConnection) throws(PostgresError) -> Bool {
        let lag = try connection.readLag()
        guard acts.areAll(in: lag, of: ReadPool.reader) else { return false }
        LagNote.current?.add(lag)
        return true
    }
}

/// What readers changed a moment ago, as positions in the primary's log.
final class RecentActs: Sendable {
    /// How long a change is looked for: a standby that is further behind says so.
    static let lasting = Duration.seconds(60)

    private let positions = Mutex<[String: (position: Int64, until: ContinuousClock.Instant)]>([:])

    func note(_ position: Int64, by reader: String, now: ContinuousClock.Instant = .now) {
        positions.withLock { positions in
            positions = positions.filter { $0.value.until > now }
            positions[reader] = (position, now + Self.lasting)
        }
    }

    /// Whether a server with a lag has all that a reader changed; the primary has.
    func areAll(in lag: ReadLag, of reader: String, now: ContinuousClock.Instant = .now) -> Bool {
        positions.withLock { positions in
            guard let wanted = positions[reader] else { return true }
            let isThere = !lag.isStandby || (lag.position ?? 0) >= wanted.position || wanted.until <= now
            if isThere { positions[reader] = nil }
            return isThere
        }
    }
}

/// What the sessions of an answer told of their lag.
final class LagNote: Sendable {
    /// Of the request that this task answers.
    @TaskLocal static var current: LagNote?

    private let found = Mutex<ReadLag?>(nil)

    /// The greatest lag; nil if nothing was read where `database.read_url` says.
    var lag: ReadLag? { found.withLock { $0 } }

    func add(_ lag: ReadLag) { found.withLock { $0 = $0?.older(lag) ?? lag } }

    /// Until when what was read is complete, of which the database said this time; nil if a standby does not tell.
    static func seen(by now: Timestamp) -> Timestamp? {
        guard let lag = current?.lag else { return now }
        return lag.seconds.map { now - .seconds($0) }
    }
}
