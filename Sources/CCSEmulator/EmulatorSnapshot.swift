/// The emulator at one moment, for conditions to wait for.
package struct EmulatorSnapshot: Sendable {
    /// One open connection.
    package struct Connection: Sendable, Equatable {
        /// Counted from 1 as connections are accepted.
        package var number: Int
        /// The sender id it is bound for; nil before.
        package var sender: String?
        /// Whether CONNECTION_DRAINING was sent on it.
        package var isDraining: Bool
        /// Whether the emulator has ended its stream.
        package var isEnding: Bool
        /// Copies delivered on it and not acked.
        package var unacked: Int
    }

    /// The counts so far.
    package var tally: Tally
    /// The open connections in the order they came.
    package var connections: [Connection]
    /// Whether every message of every sender that came was sent and every delivered copy acked.
    package var isComplete: Bool

    /// The open connections that are bound.
    package var bound: [Connection] { connections.filter { $0.sender != nil } }
}
