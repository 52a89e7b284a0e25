package struct EmulatorSnapshot: Sendable {
    package struct Connection: Sendable, Equatable {
        /// The connection's number, in the order of acceptance from 1.
        package var number: Int
        /// The sender id bound; nil before the bind.
        package var sender: String?
        package var isDraining: Bool
        package var unacked: Int
    }

    package var tally: Tally
    package var connections: [Connection]
    /// Whether every message of every connected sender was sent and every delivered copy acked.
    package var isComplete: Bool

    package var bound: [Connection] { connections.filter { $0.sender != nil } }
}

/// An accepted ack of one copy.
package struct AckRecord: Sendable {
    /// The message's id, unescaped.
    package var id: [UInt8]
    package var at = ContinuousClock.now
}
