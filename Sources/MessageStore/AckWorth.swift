package import Postgres

/// What an ack survives, given how the database commits and replicates (`check --connect`).
package struct AckWorth: Sendable, Equatable {
    /// The standbys that commits wait for; empty for none.
    package var synchronousStandbys: String
    /// The number of connected standbys and other receivers.
    package var receivers: Int
    /// Whether commits reach the disk.
    package var fsync: Bool
    /// Whether recovery repairs pages torn by a crash.
    package var fullPageWrites: Bool
    /// The sessions' initial `client_min_messages`.
    ///
    /// With `error`, PostgreSQL says nothing when the wait for a standby is broken off, so what leads to an ack sets
    /// `warning`.
    package var clientMinMessages = "notice"

    /// Reads it from the database; any role may.
    package static func ask(_ connection: PostgresConnection) async throws(PostgresError) -> AckWorth {
        try await connection.result(of: HealthStatements.durability).onlyRow(AckWorth.init)
    }

    /// Whether nothing can be acked now: commits wait for standbys, and none is connected.
    package var isStalled: Bool { !synchronousStandbys.isEmpty && receivers == 0 }

    /// Whether an ack survives a crash of the machine.
    package var isOnDisk: Bool { fsync && fullPageWrites }

    /// What an ack survives, for people.
    package var text: String {
        let off = [fsync ? nil : "fsync", fullPageWrites ? nil : "full_page_writes"].compactMap { $0 }
        guard off.isEmpty else {
            let verb = off.count == 1 ? "is" : "are"
            return
                "\(off.joined(separator: " and ")) \(verb) off: an ack may not survive a crash of the machine"
        }
        if !synchronousStandbys.isEmpty {
            return "an ack survives a failover to a standby that commits wait for: "
                + "synchronous_standby_names = '\(synchronousStandbys)'; not tried: whether they confirm"
                + "; client_min_messages = \(clientMinMessages)"
                + (clientMinMessages == "error" ? ", raised to warning for commits" : "")
        }
        guard receivers == 0 else {
            return "an ack survives a crash of this server, not a failover that loses its last transactions: "
                + "its standbys are asynchronous"
        }
        return "an ack survives a crash of this server; it has no standby"
    }
}
