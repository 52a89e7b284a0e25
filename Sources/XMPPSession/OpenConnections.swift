import Synchronization

/// The connections of a process that have not ended yet.
package final class OpenConnections: Sendable {
    private struct State {
        var members: [Int: Connection] = [:]
        var isClosed = false
    }

    private let state = Mutex(State())

    /// Closes all connections properly without waiting for uncommitted copies, which the peer redelivers, and later
    /// ones at once; returns how many there were.
    @discardableResult
    package func closeNow() -> Int {
        let members = state.withLock { state in
            state.isClosed = true
            return state.members.values.sorted { $0.number < $1.number }
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
