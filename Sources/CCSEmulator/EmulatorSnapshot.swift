/// The emulator's state at one moment, for conditions to wait for.
package struct EmulatorSnapshot: Sendable {
    package struct Connection: Sendable, Equatable {
        /// The connection's number, in the order of acceptance from 1.
        package var number: Int
        /// The sender id bound; nil before the bind.
        package var sender: String?
        /// Whether CONNECTION_DRAINING was sent on it.
        package var isDraining: Bool
        package var isEnding: Bool
        /// Delivered and unacked copies.
        package var unacked: Int
    }

    package var tally: Tally
    /// The open connections in the order of acceptance.
    package var connections: [Connection]
    /// Whether every message of every connected sender was sent and every delivered copy acked.
    package var isComplete: Bool

    package var bound: [Connection] { connections.filter { $0.sender != nil } }
}
