import Synchronization
import Vocabulary

/// Sessions for calls that must not hold each other up: one that waits for a lock keeps its session to itself.
///
/// The pool stays as small as possible: the last used session is reused first, a new one opens for a call that has
/// waited ``patience``, and unused ones are closed.
package final class PostgresPool: Sendable {
    /// How long a call waits before another session is opened, in milliseconds.
    private static let patience = Duration.milliseconds(100)
    /// How long an unused session stays open.
    private static let keeps = Duration.seconds(60)
    /// How long after a failed connect no further session is opened.
    private static let pause = Duration.seconds(5)

    private struct State {
        /// Unused sessions, the last used at the end, with the time since when.
        var free: [(client: PostgresClient, since: ContinuousClock.Instant)] = []
        /// All sessions, including those in use.
        var count = 0
        var waiting: [Promise<PostgresClient?>] = []
        var growsFrom = ContinuousClock.now
    }

    private let settings: PostgresSettings
    private let limit: Int
    private let state = Mutex(State())

    /// A pool without sessions, which grows to `limit`, at least one.
    package init(_ settings: PostgresSettings, limit: Int) {
        self.settings = settings
        self.limit = max(1, limit)
    }

    /// Runs statements on an exclusive session; see ``PostgresClient/run(_:)``.
    package func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        let client = try await take()
        do throws(PostgresError) {
            let value = try await client.run(body)
            await giveBack(client, cannotConnect: false)
            return value
        } catch {
            await giveBack(client, cannotConnect: client.cannotConnect)
            throw error
        }
    }

    /// Closes the unused sessions; later calls open new ones.
    package func close() async {
        let free = state.withLock { state in
            defer { state.free = [] }
            state.count -= state.free.count
            return state.free.map(\.client)
        }
        for client in free { await client.close() }
    }

    private func take() async throws(PostgresError) -> PostgresClient {
        var hasWaited = false
        while true {
            let promise = Promise<PostgresClient?>()
            let client = state.withLock { state -> PostgresClient? in
                if let client = state.free.popLast()?.client { return client }
                let grows = hasWaited && state.count < limit && .now >= state.growsFrom
                guard state.count == 0 || grows else {
                    state.waiting.append(promise)
                    return nil
                }
                state.count += 1
                return PostgresClient(settings)
            }
            if let client { return client }
            if let client = await promise.value(or: nil, within: Self.patience) { return client }
            state.withLock { $0.waiting.removeAll { $0 === promise } }
            guard !Task.isCancelled else { throw PostgresError.cancelled("while waiting for a session") }
            hasWaited = true
        }
    }

    private func giveBack(_ client: PostgresClient, cannotConnect: Bool) async {
        let now = ContinuousClock.now
        let leaving = state.withLock { state -> PostgresClient? in
            if cannotConnect {
                state.growsFrom = now + Self.pause
                // Other sessions may be open; the last one keeps trying, with its back-off.
                if state.count > 1 {
                    state.count -= 1
                    return client
                }
            }
            while !state.waiting.isEmpty {
                if state.waiting.removeFirst().fulfil(client) { return nil }
            }
            state.free.append((client, now))
            guard state.free.count > 1, state.free[0].since + Self.keeps < now else { return nil }
            state.count -= 1
            return state.free.removeFirst().client
        }
        await leaving?.close()
    }
}
