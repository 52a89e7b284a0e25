import Synchronization

/// The connections of a process that have not ended yet.
package final class OpenConnections: Sendable {
    private struct State {
        var members: [Int: Connection] = [:]
        var hasGivenUp = false
    }

    private let state = Mutex(State())

    package init() {}

    /// Ends all of them in order without waiting for what has not committed, and those that come later at once: acks that
    /// are due and `</stream:stream>` still go out, and TLS says close_notify.
    ///
    /// For the end of the process's time: what is not acked comes again, to whoever is there then.
    ///
    /// - Returns: How many there were.
    @discardableResult
    package func giveUp() -> Int {
        let members = state.withLock { state in
            state.hasGivenUp = true
            return Array(state.members.values)
        }
        for connection in members { connection.giveUp() }
        return members.count
    }

    func insert(_ connection: Connection) {
        let isLate = state.withLock { state in
            state.members[connection.number] = connection
            return state.hasGivenUp
        }
        if isLate { connection.giveUp() }
    }

    func remove(_ connection: Connection) {
        _ = state.withLock { $0.members.removeValue(forKey: connection.number) }
    }
}

extension SessionHandler {
    /// Ends the connection in order from our side, without waiting for what is under way: its copies come again.
    func giveUp() {
        shutDown()
        if case .bound = phase { everythingSettled() }
    }
}
