import Digests
package import Postgres
package import UpstreamKit
import Vocabulary

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

    package init() {}

    /// The number of all rows.
    package var total: Int { messages + deadMessages + deliveries + deadLetters + conflicts + quarantine }

    package var isEmpty: Bool { self == ErasureCounts() }
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
    private let token: [UInt8]
    private let device: Digest128
    private let batch: Int64
    private let rest: Duration

    /// Prepares the erasure of the device with this registration token.
    ///
    /// - Parameters:
    ///   - connection: A session of the tables' owner.
    ///   - token: The token's bytes.
    ///   - batch: The most rows in one transaction.
    ///   - rest: The pause after each transaction that deleted something.
    package init(
        _ connection: PostgresConnection,
        token: [UInt8],
        batch: Int = 1_000,
        rest: Duration = .milliseconds(20)
    ) {
        self.connection = connection
        self.token = token
        self.batch = Int64(batch)
        self.rest = rest
        device = token.withUnsafeBytes { Digest128(hashing: $0) }
    }

    package var deviceKey: DeviceKey { DeviceKey(device) }

    /// The audit trail's name for it.
    private var subject: String { "device \(deviceKey)" }

    // MARK: Counting

    /// Counts what ``run(report:)`` would delete.
    package func count(
        report: @Sendable (ErasureProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> ErasureCounts {
        var counts = ErasureCounts()
        let device = device
        counts = try await connection.result(of: ErasureStatements.count(of: device)).only {
            row throws(PostgresError) in
            var counts = ErasureCounts()
            counts.messages = try row.next()
            counts.deadMessages = try row.next()
            counts.conflicts = try row.next()
            counts.deliveries = try row.next()
            counts.deadLetters = try row.next()
            return counts
        }
        try await searchQuarantine { found throws(PostgresError) in
            counts.quarantine += found.count
        } report: { id, last in
            report(.quarantine(id: id, of: last, counts))
        }
        return counts
    }

    // MARK: Erasing

    /// Deletes, and vacuums the tables affected.
    ///
    /// Recorded before anything is deleted; with each transaction that deletes bodies of a day, so that an audit knows
    /// what is gone so far; and at the end with the number of rows.
    ///
    /// - Parameters:
    ///   - author: Who erases, and why.
    ///   - report: Receives the progress.
    /// - Returns: What was deleted.
    /// - Throws: ``PostgresError``; what was deleted before stays deleted.
    package func run(
        by author: AuditAuthor,
        report: @Sendable (ErasureProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> ErasureCounts {
        try await AuditLog.record(over: connection, .forget, subject, by: author)
        var counts = ErasureCounts()
        var touched: [String] = []
        var concealed = 0
        let partitions = try await connection.result(of: ErasureStatements.partitions).map {
            row throws(PostgresError) in
            try row.next(String.self)
        }
        for (index, partition) in partitions.enumerated() {
            let before = counts.messages
            do throws(PostgresError) {
                while try await eraseBatch(.day(partition), \.messages, &counts, &concealed, author) {
                    try await pause()
                }
            } catch  where error.sqlState == "42P01" {
                // Retention has dropped the day meanwhile.
            }
            if counts.messages > before { touched.append(partition) }
            report(.partition(index + 1, of: partitions.count, counts))
        }
        // Retention may be copying the bodies of a day that it drops. This waits until they have arrived; no more
        // follow, since the days are empty.
        _ = try await connection.result(of: ErasureStatements.awaitRetention)
        while try await eraseBatch(.deadMessages, \.deadMessages, &counts, &concealed, author) { try await pause() }
        while try await eraseBatch(.conflicts, \.conflicts, &counts, &concealed, author) { try await pause() }
        try await eraseRest(&counts)
        try await eraseQuarantine(&counts, report)
        if counts.deadMessages > 0 { touched.append("upstream.dead_messages") }
        if counts.deliveries > 0 { touched.append("upstream.deliveries") }
        if counts.deadLetters > 0 { touched.append("upstream.dead_letters") }
        if counts.conflicts > 0 { touched.append("upstream.conflicts") }
        if counts.quarantine > 0 { touched.append("upstream.quarantine") }
        if concealed > 0 { touched.append("upstream.attempt_batches") }
        for (index, table) in touched.enumerated() {
            report(.vacuum(table: table, index, of: touched.count))
            try await vacuum(table)
        }
        let trail = ErasureTrail.subject(subject, total: counts.messages)
        try await AuditLog.record(over: connection, .forget, trail, count: counts.total, by: author, isEnd: true)
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
        typealias Gone = (bodies: Int, queued: ErasureCounts, concealed: Int)
        let (device, batch, subject) = (device, batch, subject)
        let gone = try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) -> Gone in
                var queued = ErasureCounts()
                let chosen = try connection.run(ErasureStatements.choose(bodies, of: device, atMost: batch))
                    .map { row throws(PostgresError) in
                        (
                            key: try row.next(Digest128.self), place: try row.next(String.self),
                            time: try row.next(Timestamp.self)
                        )
                    }
                guard !chosen.isEmpty else { return (0, queued, 0) }
                // While a statement runs, a delivery may become a dead letter or vice versa; the next one sees it
                // there.
                while true {
                    let gone = try connection.run(ErasureStatements.dequeue(chosen.map(\.key))).counts()
                    queued.deliveries += gone.deliveries
                    queued.deadLetters += gone.deadLetters
                    if gone.isEmpty { break }
                }
                // No attempt at them can be settled any more.
                let conceal = ErasureStatements.conceal(chosen.map(\.key), receivedAt: chosen.map(\.time))
                let concealed = try connection.run(conceal).affectedRows
                // The rows are locked, so their places are unchanged.
                let delete = ErasureStatements.delete(bodies, at: chosen.map(\.place))
                let deleted = try connection.run(delete).affectedRows
                if case .day(let partition) = bodies, deleted > 0 {
                    // `audit` compares missing bodies with this.
                    let trail = ErasureTrail.subject(subject, total: deleted, ErasureTrail.entry(partition, deleted))
                    try AuditLog.record(connection, .forget, trail, count: deleted, by: author)
                }
                return (deleted, queued, concealed)
            }
        }
        counts[keyPath: field] += gone.bodies
        concealed += gone.concealed
        counts.deliveries += gone.queued.deliveries
        counts.deadLetters += gone.queued.deadLetters
        return gone.bodies > 0
    }

    /// Deletes what names the device without having a body any more.
    private func eraseRest(_ counts: inout ErasureCounts) async throws(PostgresError) {
        let device = device
        let gone = try await connection.result(of: ErasureStatements.rest(of: device)).counts()
        counts.deliveries += gone.deliveries
        counts.deadLetters += gone.deadLetters
    }

    private func eraseQuarantine(
        _ counts: inout ErasureCounts,
        _ report: @Sendable (ErasureProgress) -> Void
    ) async throws(PostgresError) {
        try await searchQuarantine { found throws(PostgresError) in
            guard !found.isEmpty else { return }
            counts.quarantine += try await connection.result(of: ErasureStatements.deleteQuarantined(found))
                .affectedRows
            try await pause()
        } report: { id, last in
            report(.quarantine(id: id, of: last, counts))
        }
    }

    /// Searches the quarantine in order of ids, and passes on the ids of stanzas with the token.
    private func searchQuarantine(
        _ found: ([Int64]) async throws(PostgresError) -> Void,
        report: (Int64, Int64) -> Void
    ) async throws(PostgresError) {
        let token = token
        var last: Int64 = 0
        let end = try await connection.result(of: ErasureStatements.lastQuarantined).value(Int64?.self) ?? 0
        while last < end {
            let start = last
            let part = try await connection.run { connection throws(PostgresError) in
                let stanzas = try connection.run(ErasureStatements.stanzas(after: start))
                let rows = try stanzas.map { row throws(PostgresError) in
                    (
                        id: try row.next(Int64.self),
                        holdsToken: StanzaText.holds(token, try row.next(Bytea.self).bytes)
                    )
                }
                return (last: rows.last?.id, held: rows.filter(\.holdsToken).map(\.id))
            }
            guard let next = part.last else { break }
            try await found(part.held)
            last = next
            report(min(last, end), end)
        }
    }

    /// Removes dead rows from the table's pages, and their values from the statistics.
    private func vacuum(_ table: String) async throws(PostgresError) {
        do throws(PostgresError) {
            try await connection.run { connection throws(PostgresError) in
                try connection.script(ErasureStatements.vacuum(table))
            }
        } catch  where error.sqlState == "42P01" {}
    }

    private func pause() async throws(PostgresError) {
        do {
            try await Task.sleep(for: rest)
        } catch {
            throw .cancelled("between two steps")
        }
    }
}

extension PostgresResult {
    /// The deliveries and dead letters that a statement has deleted.
    fileprivate func counts() throws(PostgresError) -> ErasureCounts {
        try only { row throws(PostgresError) in
            var counts = ErasureCounts()
            counts.deliveries = try row.next()
            counts.deadLetters = try row.next()
            return counts
        }
    }
}
