package import Postgres
import Querying

/// The console's sessions of the database: few, each lent for one statement or transaction at a time.
///
/// An answer is read whole, or page by page, before it is sent: a slow client holds no session.
package actor ReadPool {
    /// The sessions, each with a thread of its own.
    private let clients: [PostgresClient]
    private var free: [Int]
    private var waiting: [CheckedContinuation<Int, Never>] = []

    /// A pool that connects when it is needed.
    ///
    /// - Parameters:
    ///   - settings: What to connect to; its statement timeout bounds every statement.
    ///   - size: How many sessions, at least one.
    package init(_ settings: PostgresSettings, size: Int) {
        clients = (0..<max(1, size)).map { _ in PostgresClient(settings) }
        free = Array(clients.indices)
    }

    /// Runs statements on a free session.
    ///
    /// - Parameter body: Runs on the session's thread.
    /// - Throws: ``PostgresError``
    /// - Returns: What `body` returns.
    package func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        let index = await take()
        defer { giveBack(index) }
        return try await clients[index].run(body)
    }

    /// Lends a free session for a few statements that belong to one answer; nothing is sent to a client meanwhile.
    ///
    /// - Parameter body: Runs the statements.
    /// - Throws: ``PostgresError``, and what `body` throws.
    /// - Returns: What `body` returns.
    package func withConnection<T: Sendable>(
        _ body: @Sendable (PostgresConnection) async throws -> T
    ) async throws -> T {
        let index = await take()
        defer { giveBack(index) }
        return try await clients[index].withConnection(body)
    }

    private func take() async -> Int {
        if let index = free.popLast() { return index }
        return await withCheckedContinuation { waiting.append($0) }
    }

    private func giveBack(_ index: Int) {
        if waiting.isEmpty { free.append(index) } else { waiting.removeFirst().resume(returning: index) }
    }

    /// Ends the sessions.
    package func close() async {
        for client in clients { await client.close() }
    }
}
