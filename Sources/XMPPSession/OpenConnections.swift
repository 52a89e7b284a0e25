import Synchronization

/// The connections of a process that have not ended yet.
package final class OpenConnections: Sendable {
    private struct State {
        var members: [Int: Connection] = [:]
        var isClosed = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Ends all of them in order without waiting for what has not committed, and those that come later at once: acks that
    /// are due and `</stream:stream>` still go out, and TLS says close_notify.
    ///
    /// For when `shutdown.grace` is nearly over: the peer sends again what is not acked.
    ///
    /// - Returns: How many there were.
    @discardableResult
    package func closeNow() -> Int {
        let members = state.withLock { state in
            state.isClosed = true
            return Array(state.members.values)
        }
        for connection in members { connection.closeNow() }
        return members.count
    }

    func insert(_ connection: Connection) {
        let isLate = state.withLock { state in
            state.members[connection.number] = connection
            return state.isClosed
        }
        if isLate { connection.closeNow() }
    }

    func remove(_ connection: Connection) {
        _ = state.withLock { $0.members.removeValue(forKey: connection.number) }
    }
}
