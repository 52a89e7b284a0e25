package import Postgres
import Querying
import Synchronization
import Vocabulary

/// The console's database sessions: few, each lent for one statement or transaction at a time.
///
/// An answer is read whole, or page by page, before it is sent, so a slow client holds no session. Neither one reader
/// nor searches can take all of them: see ``ReadShares``.
package actor ReadPool {
    /// The reader in this task, by name; empty for the console itself, which has no limit.
    @TaskLocal package static var reader = ""

    /// How many may wait for a session; more are refused at once.
    private static let queueLimit = 64
    /// How long a request waits for a session.
    private static let patience = Duration.seconds(10)
    /// How long after a failed connect further requests are refused without an attempt.
    private static let pause = Duration.seconds(1)

    static let busy = PostgresError(.resources, "every database session of the console is in use")

    /// A session that connects on demand, with its own thread.
    private final class Lane: Sendable {
        let client: PostgresClient
        private let isReadOnly: Bool
        /// The connection that was prepared last.
        private let prepared = Mutex<PostgresConnection?>(nil)

        init(_ settings: PostgresSettings, isReadOnly: Bool) {
            (client, self.isReadOnly) = (PostgresClient(settings), isReadOnly)
        }

        func prepare(_ connection: isolated PostgresConnection) throws(PostgresError) {
            guard isReadOnly, prepared.withLock({ $0 !== connection }) else { return }
            try connection.becomeReadOnly()
            prepared.withLock { $0 = connection }
        }
    }

    private let lanes: [Lane]
    private let isReadOnly: Bool
    private var free: [Int]
    private var shares: ReadShares
    private var waiting: [(claim: ReadShares.Claim, session: Promise<Int?>)] = []
    private var failure: (error: PostgresError, until: ContinuousClock.Instant)?

    /// Makes a pool of at least one session that connects on demand; `settings`' timeout bounds every statement.
    package init(_ settings: PostgresSettings, size: Int, isReadOnly: Bool = true) {
        var settings = settings
        settings.reconnectMaximum = 1_000
        lanes = (0..<max(1, size)).map { [settings] _ in Lane(settings, isReadOnly: isReadOnly) }
        free = Array(lanes.indices)
        shares = ReadShares(sessions: lanes.count)
        self.isReadOnly = isReadOnly
    }

    /// Runs statements on a free session, on its thread.
    ///
    /// - Throws: ``PostgresError``: also if no session became free, or the database was away a moment ago.
    package func run<T: Sendable>(
        _ use: ReadShares.Use = .look,
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        let claim = claim(use)
        let index = try await take(claim)
        defer { giveBack(index, claim) }
        let lane = lanes[index]
        do throws(PostgresError) {
            let result = try await lane.client.run { connection throws(PostgresError) in
                try lane.prepare(connection)
                return try body(connection)
            }
            failure = nil
            return result
        } catch {
            note(error)
            throw error
        }
    }

    /// Lends a session for one query or transaction; the answer must not be sent meanwhile.
    ///
    /// `body` also makes the answer if that is large, so that few are made at once.
    ///
    /// - Throws: As ``run(_:)``, and what `body` throws.
    package func withConnection<T: Sendable>(
        _ use: ReadShares.Use = .look,
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        let claim = claim(use)
        let index = try await take(claim)
        defer { giveBack(index, claim) }
        let lane = lanes[index]
        do {
            let result = try await lane.client.withConnection { connection in
                try await connection.run { connection throws(PostgresError) in
                    try lane.prepare(connection)
                }
                return try await body(connection)
            }
            failure = nil
            return result
        } catch {
            if let error = error as? PostgresError { note(error) }
            throw error
        }
    }

    package func close() async {
        for lane in lanes { await lane.client.close() }
    }

    // MARK: Lending

    /// Writing sessions are few and lent for a moment, so they have no shares.
    private func claim(_ use: ReadShares.Use) -> ReadShares.Claim {
        ReadShares.Claim(reader: isReadOnly ? Self.reader : "", use: use)
    }

    private func take(_ claim: ReadShares.Claim) async throws(PostgresError) -> Int {
        try checkFailure()
        if shares.allows(claim), let index = free.popLast() {
            shares.take(claim)
            return index
        }
        guard waiting.count < Self.queueLimit, shares.mayWait(claim, waiting.map(\.claim)) else { throw Self.busy }
        let session = Promise<Int?>()
        waiting.append((claim, session))
        // Also until the request is abandoned.
        let index = await session.value(or: nil, within: Self.patience)
        waiting.removeAll { $0.session === session }
        guard let index else { throw Self.busy }
        do throws(PostgresError) {
            try checkFailure()
        } catch {
            giveBack(index, claim)
            throw error
        }
        return index
    }

    private func giveBack(_ index: Int, _ claim: ReadShares.Claim) {
        shares.giveBack(claim)
        free.append(index)
        while let index = free.last, let place = shares.next(waiting.map(\.claim)) {
            let next = waiting.remove(at: place)
            // An abandoned request takes no session.
            guard next.session.fulfil(index) else { continue }
            shares.take(next.claim)
            free.removeLast()
        }
    }

    private func note(_ error: PostgresError) {
        guard error.failureClass == .connection || error.failureClass == .authentication else { return }
        failure = (error, .now + Self.pause)
    }

    private func checkFailure() throws(PostgresError) {
        guard let failure else { return }
        if ContinuousClock.now < failure.until { throw failure.error }
        self.failure = nil
    }
}
