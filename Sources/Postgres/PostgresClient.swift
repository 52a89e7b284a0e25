package import Vocabulary

/// A connection made on demand and replaced after a failure.
///
/// It never repeats a failed statement: only the caller knows whether that is right. Client and connection run on one
/// thread, so that switching between them costs nothing.
package actor PostgresClient {
    nonisolated package let settings: PostgresSettings

    nonisolated private let thread = PostgresThread()
    private var connection: PostgresConnection?
    private let connector: HostConnector
    private let clock: DatabaseClock?
    private let onStandbyWait: (@Sendable () -> Void)?
    private let onWarning: (@Sendable (ServerWarning) -> Void)?
    private let backoff: Backoff
    // Since the last success.
    private var failures = 0
    private var notBefore = ContinuousClock.now
    /// Whether a call is connecting, and the callers that wait for its result.
    private var isConnecting = false
    private var followers: [Promise<ConnectOutcome?>] = []

    /// How another caller's attempt to connect ended; nil if that caller was cancelled.
    private typealias ConnectOutcome = Result<Void, PostgresError>

    /// A client that connects on first use; the clock learns the server's time with each session.
    ///
    /// On the client's thread, it calls `onStandbyWait` when a writer's statement is found waiting for a standby, and
    /// `onWarning` after a successful statement with a server warning.
    package init(
        _ settings: PostgresSettings,
        clock: DatabaseClock? = nil,
        onStandbyWait: (@Sendable () -> Void)? = nil,
        onWarning: (@Sendable (ServerWarning) -> Void)? = nil
    ) {
        self.settings = settings
        self.clock = clock
        self.onWarning = onWarning
        self.onStandbyWait = onStandbyWait
        connector = HostConnector(settings)
        backoff = Backoff(initial: .milliseconds(250), maximum: .milliseconds(settings.reconnectMaximum))
    }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.executor.asUnownedSerialExecutor() }

    /// The client's thread, for a task that does little but run statements of this client.
    ///
    /// Statements block it, so nothing else belongs there. A task on it keeps the client alive.
    nonisolated package var taskExecutor: any TaskExecutor { thread.executor }

    /// Runs statements on the connection's thread, connecting first if needed.
    ///
    /// After a failed connect, the next call waits for the back-off; calls that come meanwhile share its attempt. A
    /// session that failed, or turned out read-only after a failover, is closed, so that the next call finds the server
    /// that takes writes.
    package func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        let connection = try await connected()
        do throws(PostgresError) {
            return try await connection.run(body)
        } catch {
            if error.endsSession {
                await drop(connection)
                // Another server takes the writes, or will.
                connector.skip()
            }
            throw error
        }
    }

    /// Lends the connection, connecting first if needed.
    ///
    /// A session found broken afterwards is dropped, so that the next call makes another.
    package func withConnection<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        let connection = try await connected()
        do {
            return try await body(connection)
        } catch {
            if await !connection.isOpen { await drop(connection) }
            throw error
        }
    }

    /// Ends the session; the next ``run(_:)`` opens another.
    package func close() async {
        if let connection { await drop(connection) }
    }

    /// Whether the last attempt to connect failed.
    package var cannotConnect: Bool { failures > 0 }

    private func drop(_ failed: PostgresConnection) async {
        if connection === failed { connection = nil }
        await failed.close()
    }

    private func connected() async throws(PostgresError) -> PostgresConnection {
        while true {
            if let connection, await connection.isOpen { return connection }
            guard isConnecting else { return try await connect() }
            // All waiting callers share one attempt.
            let follower = Promise<ConnectOutcome?>()
            followers.append(follower)
            try await follower.value(or: nil)?.get()
            guard !Task.isCancelled else { throw Self.cancelled }
        }
    }

    private func connect() async throws(PostgresError) -> PostgresConnection {
        isConnecting = true
        do throws(PostgresError) {
            let wait = notBefore - .now
            if wait > .zero {
                do { try await Task.sleep(for: wait) } catch { throw Self.cancelled }
            }
            let session = try await connector.open()
            clock?.learn(session.clock)
            let opened = try PostgresConnection(
                settings,
                session,
                on: thread,
                onStandbyWait: onStandbyWait,
                onWarning: onWarning
            )
            failures = 0
            connection = opened
            tell(.success(()))
            return opened
        } catch {
            guard !Task.isCancelled else {
                tell(nil)
                throw error
            }
            failures = min(failures + 1, 1_000)
            notBefore = .now + backoff.delay(attempt: failures, random: .random(in: 0...1))
            tell(.failure(error))
            throw error
        }
    }

    private func tell(_ outcome: ConnectOutcome?) {
        isConnecting = false
        let waiting = followers
        followers = []
        for follower in waiting { follower.fulfil(outcome) }
    }

    private static let cancelled = PostgresError.cancelled("while waiting to connect")
}
