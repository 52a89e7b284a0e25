package import Vocabulary

/// A connection that is made when it is needed, given up when it fails, and made again.
///
/// A failed statement is not repeated here: whether that is right, only the caller knows.
///
/// Client and connection run on one thread, so that going from one to the other costs nothing.
package actor PostgresClient {
    /// What to connect to.
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
    /// Whether a call is connecting, and who waits for the same.
    private var isConnecting = false
    private var followers: [Promise<ConnectOutcome>] = []

    /// How somebody else's attempt to connect ended.
    private enum ConnectOutcome: Sendable {
        case connected
        case failed(PostgresError)
        /// It was given up, because its caller was cancelled.
        case abandoned
    }

    /// A client that connects when it is first needed.
    ///
    /// - Parameters:
    ///   - settings: What to connect to.
    ///   - clock: Learns the server's time with each session.
    ///   - onStandbyWait: Is called, on the client's thread, when a statement of a writer is found waiting for a standby.
    ///   - onWarning: Is called there after a statement that succeeded, where the server sent a warning.
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
    /// A statement blocks it, so nothing else belongs there. Whoever runs a task on it keeps the client for as long.
    nonisolated package var taskExecutor: any TaskExecutor { thread.executor }

    /// Runs statements on the connection's thread, connecting first where that is needed.
    ///
    /// After a failed connect the next call waits its back-off before it tries again; calls that come meanwhile share its
    /// attempt. A session that failed, or that
    /// turned out read-only after a failover, is closed, so that the next call finds the server that takes writes.
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

    /// Lends the connection, connecting first where that is needed.
    ///
    /// A session that is broken afterwards is given up, so that the next call makes another.
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

    /// Ends the session; the next ``run(_:)`` makes another.
    package func close() async {
        if let connection { await drop(connection) }
    }

    /// Whether the last attempt to connect has failed.
    package var cannotConnect: Bool { failures > 0 }

    private func drop(_ failed: PostgresConnection) async {
        if connection === failed { connection = nil }
        await failed.close()
    }

    private func connected() async throws(PostgresError) -> PostgresConnection {
        while true {
            if let connection, await connection.isOpen { return connection }
            guard isConnecting else { return try await connect() }
            // One attempt serves all who wait for it.
            let follower = Promise<ConnectOutcome>()
            followers.append(follower)
            switch await follower.value() {
            case .connected, .abandoned: continue
            case .failed(let error): throw error
            case nil: throw Self.cancelled
            }
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
            tell(.connected)
            return opened
        } catch {
            guard !Task.isCancelled else {
                tell(.abandoned)
                throw error
            }
            var generator = SystemRandomNumberGenerator()
            failures = min(failures + 1, 1_000)
            notBefore = .now + backoff.delay(attempt: failures, using: &generator)
            tell(.failed(error))
            throw error
        }
    }

    private func tell(_ outcome: ConnectOutcome) {
        isConnecting = false
        let waiting = followers
        followers = []
        for follower in waiting { follower.fulfil(outcome) }
    }

    private static let cancelled = PostgresError.cancelled("while waiting to connect")
}
