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
    private var backoff = ReconnectBackoff()
    private var notBefore = ContinuousClock.now

    package init(_ settings: PostgresSettings) { self.settings = settings }

    package nonisolated var unownedExecutor: UnownedSerialExecutor { thread.executor.asUnownedSerialExecutor() }

    /// The client's thread, for a task that does little but run statements of this client.
    ///
    /// A statement blocks it, so nothing else belongs there. Whoever runs a task on it keeps the client for as long.
    nonisolated package var taskExecutor: any TaskExecutor { thread.executor }

    /// Runs statements on the connection's thread, connecting first where that is needed.
    ///
    /// After a failed connect the next call waits its back-off before it tries again. A session that failed, or that
    /// turned out read-only after a failover, is closed, so that the next call finds the server that takes writes.
    package func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        let connection = try await connected()
        do throws(PostgresError) {
            return try await connection.run(body)
        } catch {
            if error.endsSession { await drop(connection) }
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

    private func drop(_ failed: PostgresConnection) async {
        if connection === failed { connection = nil }
        await failed.close()
    }

    private func connected() async throws(PostgresError) -> PostgresConnection {
        if let connection, await connection.isOpen { return connection }
        if ContinuousClock.now < notBefore {
            do {
                try await Task.sleep(until: notBefore, clock: .continuous)
            } catch {
                throw PostgresError(.timeout, "cancelled while waiting to reconnect", sqlState: "57014")
            }
        }
        do throws(PostgresError) {
            let opened = try await PostgresConnection.open(settings, on: thread)
            backoff.succeeded()
            connection = opened
            return opened
        } catch {
            var generator = SystemRandomNumberGenerator()
            notBefore = .now + .milliseconds(backoff.failed(using: &generator))
            throw error
        }
    }
}
