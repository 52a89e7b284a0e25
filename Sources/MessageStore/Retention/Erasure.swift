import Digests
package import Postgres
package import UpstreamKit
package import Vocabulary

/// Counts of what an erasure found or deleted.
package struct ErasureCounts: Sendable, Equatable {
    /// Bodies in `messages`.
    package var messages = 0
    /// Bodies in `dead_messages`, kept for their dead letters.
    package var deadMessages = 0
    package var deliveries = 0
    package var deadLetters = 0
    /// Rows in `conflicts`.
    package var conflicts = 0
    /// Stanzas in `quarantine` that hold the token.
    package var quarantine = 0

    /// Each table with its rows.
    package var tables: [(name: String, count: Int)] {
        [
            ("messages", messages), ("dead_messages", deadMessages), ("deliveries", deliveries),
            ("dead_letters", deadLetters), ("conflicts", conflicts), ("quarantine", quarantine),
        ]
    }

    /// The number of all rows.
    package var total: Int { tables.reduce(0) { $0 + $1.count } }
}

package enum ErasureProgress: Sendable {
    /// A partition is done.
    case partition(Int, of: Int, ErasureCounts)
    /// The quarantine was searched up to this id.
    case quarantine(id: Int64, of: Int64, ErasureCounts)
    /// A table is being vacuumed, after this many others.
    case vacuum(table: String, Int, of: Int)
}

/// Erases what is stored about one device, except for the hashes in the ledger.
///
/// The token stays in this process: tables are searched by its hash, and the quarantine's bytes are fetched and
/// searched here. Each batch is its own transaction, and the whole may be repeated.
package struct Erasure: Sendable {
    private let connection: PostgresConnection
    private let token: [UInt8]?
    private let device: Digest128
    private let batch: Int64
    private let pause: Duration

    /// Prepares the erasure of the device with this registration token, over a session of the tables' owner.
    ///
    /// A transaction takes at most `batch` rows; `pause` is that after each that deleted something.
    package init(
        _ connection: PostgresConnection,
        token: [UInt8],
        batch: Int = 1_000,
        pause: Duration = .milliseconds(20)
    ) {
        self.init(connection, Self.device(of: token), token, batch, pause)
    }

    /// Prepares the erasure of a device by its key: one of its messages tells the token.
    package init(
        _ connection: PostgresConnection,
        device: DeviceKey,
        batch: Int = 1_000,
        pause: Duration = .milliseconds(20)
    ) async throws(PostgresError) {
        let known: [String] = try await connection.result(of: ErasureStatements.tokens(of: device.digest)).rows { $0 }
        let token = known.map { Array($0.utf8) }.first { Self.device(of: $0) == device.digest }
        self.init(connection, device.digest, token, batch, pause)
    }

    private init(
        _ connection: PostgresConnection,
        _ device: Digest128,
        _ token: [UInt8]?,
        _ batch: Int,
        _ pause: Duration
    ) {
        (self.connection, self.device, self.token) = (connection, device, token)
        (self.batch, self.pause) = (Int64(batch), pause)
    }

    private static func device(of token: [UInt8]) -> Digest128 { token.withUnsafeBytes { Digest128(hashing: $0) } }

    package var deviceKey: DeviceKey { DeviceKey(device) }

    /// Whether it leaves stanzas that hold the token: no message is left to tell it, and there are stanzas.
    package var mayMissStanzas: Bool {
        get async throws(PostgresError) {
            guard token == nil else { return false }
            return try await connection.result(of: ErasureStatements.lastQuarantined).value(Int64?.self) != nil
        }
    }

    /// The audit trail's name for it.
    private var subject: String { "device \(deviceKey)" }

    // MARK: Counting

    /// Counts what ``run(report:)`` would delete.
    package func count(
        report: @Sendable (ErasureProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> ErasureCounts {
        let device = device
        var counts = try await connection.run { connection throws(PostgresError) in
            try Self.count(connection, of: device)
        }
        try await searchQuarantine { found throws(PostgresError) in
            counts.quarantine += found.count
        } report: { id, last in
            report(.quarantine(id: id, of: last, counts))
        }
        return counts
    }

    /// Counts a device's rows, without quarantined stanzas, which only a search finds.
    package static func count(
        _ connection: isolated PostgresConnection,
        of device: Digest128
    ) throws(PostgresError) -> ErasureCounts {
        var counts = ErasureCounts()
        (counts.messages, counts.deadMessages, counts.conflicts, counts.deliveries, counts.deadLetters) =
            try connection.run(ErasureStatements.count(of: device)).onlyRow { ($0, $1, $2, $3, $4) }
        return counts
    }

    // MARK: Erasing

    /// Deletes, and vacuums the tables affected; after an error, what was deleted before stays deleted.
    ///
    /// A table that can't be vacuumed, as while an index is built there, keeps no other from it.
    /// Recorded before anything is deleted; with each transaction that deletes bodies of a day, so that an audit knows
    /// what is gone so far; and at the end with the number of rows. `searched` is called once the quarantine was searched.
    package func run(
        by author: AuditAuthor,
        report: @Sendable (ErasureProgress) -> Void = { _ in },
        searched: (ErasureCounts) async throws(PostgresError) -> Void = { _ in }
    ) async throws(PostgresError) -> ErasureCounts {
        try await AuditLog.record(over: connection, .forget, subject, by: author)
        let start = try await connection.databaseTime()
        var counts = ErasureCounts()
        var touched: [String] = []
        var concealed = 0
        // First: broken off later, messages may be gone that told the token.
        try await eraseQuarantine(&counts, report)
        try await searched(counts)
        let partitions: [(day: String, table: String)] =
            try await connection.result(of: ErasureStatements.partitions).rows { ($0, $1) }
        for (index, partition) in partitions.enumerated() {
            let before = counts.messages
            do throws(PostgresError) {
                while try await eraseBatch(
                    .day(partition.day, partition.table),
                    \.messages,
                    &counts,
                    &concealed,
                    author
                ) {
                    try await rest(pause)
                }
            } catch  where error.sqlState == "42P01" {
                // Retention has dropped the day meanwhile.
            }
            if counts.messages > before { touched.append(partition.table) }
            report(.partition(index + 1, of: partitions.count, counts))
        }
        // Retention may be copying the bodies of a day that it drops. This waits until they have arrived; no more
        // follow, since the days are empty.
        _ = try await connection.result(of: ErasureStatements.awaitRetention)
        while try await eraseBatch(.deadMessages, \.deadMessages, &counts, &concealed, author) { try await rest(pause) }
        while try await eraseBatch(.conflicts, \.conflicts, &counts, &concealed, author) { try await rest(pause) }
        try await eraseRest(&counts, &concealed)
        // Copies may have messages that are not here any more.
        _ = try await connection.result(of: ErasureStatements.record(device, until: start))
        // Of messages, the partitions are.
        touched += counts.tables.dropFirst().filter { $0.count > 0 }.map { "upstream.\($0.name)" }
        if concealed > 0 { touched.append("upstream.attempt_batches") }
        let fault = try await vacuum(touched, report)
        let trail = ErasureTrail.subject(subject, total: counts.messages)
        try await AuditLog.record(over: connection, .forget, trail, count: counts.total, by: author, isEnd: true)
        if let fault { throw fault }
        return counts
    }

    /// Deletes some bodies with their deliveries and dead letters in one transaction; false once there are none.
    private func eraseBatch(
        _ bodies: ErasureStatements.Bodies,
        _ field: WritableKeyPath<ErasureCounts, Int>,
        _ counts: inout ErasureCounts,
        _ concealed: inout Int,
        _ author: AuditAuthor
    ) async throws(PostgresError) -> Bool {
        typealias Gone = (bodies: Int, deliveries: Int, deadLetters: Int, concealed: Int)
        let (device, batch, subject) = (device, batch, subject)
        let gone = try await connection.inTransaction { connection throws(PostgresError) -> Gone in
            var gone: Gone = (0, 0, 0, 0)
            let chosen: [(key: Digest128, place: String, time: Timestamp)] =
                try connection.run(ErasureStatements.choose(bodies, of: device, atMost: batch)).rows { ($0, $1, $2) }
            guard !chosen.isEmpty else { return gone }
            // While a statement runs, a delivery may become a dead letter or vice versa; the next one sees it there.
            while true {
                let (waiting, dead): (Int, Int) =
                    try connection.run(ErasureStatements.dequeue(chosen.map(\.key))).onlyRow { ($0, $1) }
                guard waiting + dead > 0 else { break }
                gone.deliveries += waiting
                gone.deadLetters += dead
            }
            // No attempt at them can be settled any more.
            let conceal = ErasureStatements.conceal(chosen.map(\.key), receivedAt: chosen.map(\.time))
            gone.concealed = try connection.run(conceal).affectedRows
            // The rows are locked, so their places are unchanged.
            gone.bodies = try connection.run(ErasureStatements.delete(bodies, at: chosen.map(\.place))).value()
            guard gone.bodies == chosen.count else {
                let left = "\(chosen.count - gone.bodies) of \(chosen.count) rows of \(bodies.table) were not deleted"
                throw PostgresError(.lock, "\(left): a trigger there keeps them", sqlState: "55000")
            }
            if let day = bodies.day, gone.bodies > 0 {
                // `audit` compares missing bodies with this.
                let entry = ErasureTrail.entry(day, gone.bodies)
                let trail = ErasureTrail.subject(subject, total: gone.bodies, entry)
                try AuditLog.record(connection, .forget, trail, count: gone.bodies, by: author)
            }
            return gone
        }
        counts[keyPath: field] += gone.bodies
        concealed += gone.concealed
        counts.deliveries += gone.deliveries
        counts.deadLetters += gone.deadLetters
        return gone.bodies > 0
    }

    /// Deletes what is without a body, and names the device or an erased message.
    ///
    /// A worker that just then made rows of its deliveries may have kept some of erased messages. What has a body arrived
    /// meanwhile, and is delivered.
    private func eraseRest(_ counts: inout ErasureCounts, _ concealed: inout Int) async throws(PostgresError) {
        let device = device
        let (waiting, dead, hidden) = try await connection.inTransaction {
            connection throws(PostgresError) -> (Int, Int, Int) in
            let gone: [(key: Digest128, time: Timestamp, isDead: Bool)] =
                try connection.run(ErasureStatements.rest(of: device)).rows { ($0, $1, $2) }
            let conceal = ErasureStatements.conceal(gone.map(\.key), receivedAt: gone.map(\.time))
            let hidden = gone.isEmpty ? 0 : try connection.run(conceal).affectedRows
            let dead = gone.count { $0.isDead }
            return (gone.count - dead, dead, hidden)
        }
        counts.deliveries += waiting
        counts.deadLetters += dead
        concealed += hidden
    }

    private func eraseQuarantine(
        _ counts: inout ErasureCounts,
        _ report: @Sendable (ErasureProgress) -> Void
    ) async throws(PostgresError) {
        try await searchQuarantine { found throws(PostgresError) in
            guard !found.isEmpty else { return }
            counts.quarantine += try await connection.result(of: ErasureStatements.deleteQuarantined(found))
                .affectedRows
            try await rest(pause)
        } report: { id, last in
            report(.quarantine(id: id, of: last, counts))
        }
    }

    /// Searches the quarantine in order of ids, and passes on the ids of stanzas with the token.
    private func searchQuarantine(
        _ found: ([Int64]) async throws(PostgresError) -> Void,
        report: (Int64, Int64) -> Void
    ) async throws(PostgresError) {
        guard let token else { return }
        var last: Int64 = 0
        let end = try await connection.result(of: ErasureStatements.lastQuarantined).value(Int64?.self) ?? 0
        while last < end {
            let stanzas: [(id: Int64, holdsToken: Bool)] =
                try await connection.result(of: ErasureStatements.stanzas(after: last)).rows {
                    ($0, StanzaText.holds(token, ($1 as Bytea).bytes))
                }
            guard let next = stanzas.last?.id else { break }
            try await found(stanzas.filter(\.holdsToken).map(\.id))
            last = next
            report(min(last, end), end)
        }
    }

    /// Vacuums some tables; returns the first failure, which keeps none of the others from it.
    private func vacuum(
        _ tables: [String],
        _ report: @Sendable (ErasureProgress) -> Void
    ) async throws(PostgresError) -> PostgresError? {
        var fault: PostgresError?
        for (index, table) in tables.enumerated() {
            report(.vacuum(table: table, index, of: tables.count))
            do throws(PostgresError) { try await vacuum(table) } catch {
                guard !error.endsSession, error.failureClass != .cancelled else { throw error }
                fault = fault ?? error
            }
        }
        fault?.message += ": everything is deleted, but not all dead rows are removed yet: autovacuum does that"
        return fault
    }

    /// Removes dead rows from the table's pages, and their values from the statistics.
    private func vacuum(_ table: String) async throws(PostgresError) {
        do throws(PostgresError) {
            try await connection.run { connection throws(PostgresError) in
                try connection.script(ErasureStatements.vacuum(table))
            }
        } catch  where error.sqlState == "42P01" {}
    }
}

/// The audit entries of `forget`: how many bodies it deleted of each day, and nothing about them.
///
/// The ledger keeps its rows of erased messages. To tell bodies deleted by `forget` from lost ones, each transaction of
/// an erasure records how many bodies of which partition it deleted:
/// `device 0c00…, bodies: 100, messages_20261120: 100`. The final entry has only the total; earlier versions named the
/// partitions there.
package enum ErasureTrail {
    private static let title = "bodies"

    /// Whether an entry names the days of the deleted bodies; those of earlier versions did not.
    package static func isDated(_ subject: String) -> Bool { subject.contains(", \(title): ") }

    /// A partition's part of ``subject(_:total:_:)``, by its plain name.
    static func entry(_ partition: String, _ count: Int) -> String { "\(partition): \(count)" }

    /// The whole subject, in less than 1,000 characters; without a partition's part only the total.
    static func subject(_ device: String, total: Int, _ partition: String? = nil) -> String {
        ([device, "\(title): \(total)"] + (partition.map { [$0] } ?? [])).joined(separator: ", ")
    }

    /// Parses a subject: the number of deleted bodies by partition; empty if it names none.
    package static func bodies(in subject: String) -> [String: Int] {
        var found: [String: Int] = [:]
        for part in subject.split(separator: ",").dropFirst() {
            guard let colon = part.lastIndex(of: ":"),
                let count = Int(part[colon...].dropFirst().drop { $0 == " " })
            else { continue }
            let name = String(part[..<colon].drop { $0 == " " })
            if name != title { found[name, default: 0] += count }
        }
        return found
    }
}
