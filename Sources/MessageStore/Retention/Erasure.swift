import Digests
package import Postgres
package import UpstreamKit
import Vocabulary

/// What an erasure found, or deleted.
package struct ErasureCounts: Sendable, Equatable {
    /// Bodies in `messages`.
    package var messages = 0
    /// Bodies in `dead_messages`, kept for their dead letters.
    package var deadMessages = 0
    /// Deliveries of them.
    package var deliveries = 0
    /// Dead letters of them.
    package var deadLetters = 0
    /// Rows in `conflicts`.
    package var conflicts = 0
    /// Stanzas in `quarantine` that hold the token.
    package var quarantine = 0

    package init() {}

    /// Whether there is nothing.
    package var isEmpty: Bool { self == ErasureCounts() }
}

/// How far an erasure is.
package enum ErasureProgress: Sendable {
    /// A partition is done.
    case partition(Int, of: Int, ErasureCounts)
    /// Stanzas of the quarantine were looked through, up to this id.
    case quarantine(id: Int64, of: Int64, ErasureCounts)
    /// A table is being vacuumed, after so many others.
    case vacuum(table: String, Int, of: Int)
}

/// Erases what is kept of one device, except for the hashes in the ledger.
///
/// The token stays in this process: the tables are asked for its hash, and the bytes of the quarantine are fetched and
/// looked through here. Each batch is a transaction of its own and the whole may be repeated.
package struct Erasure: Sendable {
    private let connection: PostgresConnection
    private let token: [UInt8]
    private let device: Digest128
    private let batch: Int64
    private let rest: Duration

    /// An erasure of what the device with this registration token sent.
    ///
    /// - Parameters:
    ///   - connection: A session of the tables' owner.
    ///   - token: The token's bytes.
    ///   - batch: Rows in one transaction at most.
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

    /// The device's key.
    package var deviceKey: DeviceKey { DeviceKey(device) }

    // MARK: Counting

    /// Counts what ``run(report:)`` would delete.
    ///
    /// - Throws: ``PostgresError``
    package func count(
        report: @Sendable (ErasureProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> ErasureCounts {
        var counts = ErasureCounts()
        let device = device
        counts = try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(uuidHigh: device.high, low: device.low)
            let result = try connection.query(ErasureStatements.count, parameters)
            func number(_ column: Int) -> Int { Int(result.integer(0, column) ?? 0) }
            var counts = ErasureCounts()
            (counts.messages, counts.deadMessages, counts.conflicts) = (number(0), number(1), number(2))
            (counts.deliveries, counts.deadLetters) = (number(3), number(4))
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

    /// Deletes, and vacuums the tables where something was deleted.
    ///
    /// - Parameter report: Is told how far it is.
    /// - Returns: What was deleted.
    /// - Throws: ``PostgresError``; what was deleted before stays deleted.
    package func run(
        report: @Sendable (ErasureProgress) -> Void = { _ in }
    ) async throws(PostgresError) -> ErasureCounts {
        var counts = ErasureCounts()
        var touched: [String] = []
        let partitions = try await names(ErasureStatements.partitions)
        for (index, partition) in partitions.enumerated() {
            let before = counts.messages
            do throws(PostgresError) {
                while try await eraseBatch(.day(partition), \.messages, &counts) { try await pause() }
            } catch  where error.sqlState == "42P01" {
                // Retention has dropped the day meanwhile.
            }
            if counts.messages > before { touched.append(partition) }
            report(.partition(index + 1, of: partitions.count, counts))
        }
        // A day that retention drops just now has its bodies copied first. Whatever is on its way arrives before this goes
        // on, and no more of it follows: the days are empty.
        try await connection.run { connection throws(PostgresError) in
            _ = try connection.query(ErasureStatements.awaitRetention)
        }
        while try await eraseBatch(.deadMessages, \.deadMessages, &counts) { try await pause() }
        while try await eraseBatch(.conflicts, \.conflicts, &counts) { try await pause() }
        try await eraseRest(&counts)
        try await eraseQuarantine(&counts, report)
        if counts.deadMessages > 0 { touched.append("upstream.dead_messages") }
        if counts.deliveries > 0 { touched.append("upstream.deliveries") }
        if counts.deadLetters > 0 { touched.append("upstream.dead_letters") }
        if counts.conflicts > 0 { touched.append("upstream.conflicts") }
        if counts.quarantine > 0 { touched.append("upstream.quarantine") }
        for (index, table) in touched.enumerated() {
            report(.vacuum(table: table, index, of: touched.count))
            try await vacuum(table)
        }
        return counts
    }

    /// One transaction: some bodies with their deliveries and dead letters; false once there are none.
    private func eraseBatch(
        _ bodies: ErasureStatements.Bodies,
        _ field: WritableKeyPath<ErasureCounts, Int>,
        _ counts: inout ErasureCounts
    ) async throws(PostgresError) -> Bool {
        let (device, batch) = (device, batch)
        let gone = try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) -> (bodies: Int, queued: ErasureCounts) in
                var queued = ErasureCounts()
                var chosen = PostgresParameters()
                chosen.append(uuidHigh: device.high, low: device.low)
                chosen.append(batch)
                let rows = try connection.query(bodies.choose, chosen)
                guard rows.count > 0 else { return (0, queued) }
                var keys = PostgresParameters()
                keys.append(uuids: (0..<rows.count).compactMap { rows.digest($0, 0) })
                // A delivery may become a dead letter, or the other way round, while a statement runs; the next one sees
                // it where it went.
                while true {
                    let queue = try connection.query(ErasureStatements.queues, keys)
                    let (deliveries, dead) = (Int(queue.integer(0, 0) ?? 0), Int(queue.integer(0, 1) ?? 0))
                    queued.deliveries += deliveries
                    queued.deadLetters += dead
                    if deliveries + dead == 0 { break }
                }
                // The rows are locked, so they are where they were.
                var places = PostgresParameters()
                places.append(texts: (0..<rows.count).compactMap { rows.text($0, 1) })
                return (try connection.query(bodies.delete, places).affectedRows, queued)
            }
        }
        counts[keyPath: field] += gone.bodies
        counts.deliveries += gone.queued.deliveries
        counts.deadLetters += gone.queued.deadLetters
        return gone.bodies > 0
    }

    /// What names the device without having a body any more.
    private func eraseRest(_ counts: inout ErasureCounts) async throws(PostgresError) {
        let device = device
        let gone = try await connection.run { connection throws(PostgresError) in
            var parameters = PostgresParameters()
            parameters.append(uuidHigh: device.high, low: device.low)
            let result = try connection.query(ErasureStatements.rest, parameters)
            return (deliveries: Int(result.integer(0, 0) ?? 0), dead: Int(result.integer(0, 1) ?? 0))
        }
        counts.deliveries += gone.deliveries
        counts.deadLetters += gone.dead
    }

    private func eraseQuarantine(
        _ counts: inout ErasureCounts,
        _ report: @Sendable (ErasureProgress) -> Void
    ) async throws(PostgresError) {
        try await searchQuarantine { found throws(PostgresError) in
            guard !found.isEmpty else { return }
            counts.quarantine += try await connection.run { connection throws(PostgresError) in
                var parameters = PostgresParameters()
                parameters.append(integers: found)
                return try connection.query(ErasureStatements.quarantine, parameters).affectedRows
            }
            try await pause()
        } report: { id, last in
            report(.quarantine(id: id, of: last, counts))
        }
    }

    /// Looks through the quarantine, part by part in the order of ids, and hands on the ids of stanzas with the token.
    private func searchQuarantine(
        _ found: ([Int64]) async throws(PostgresError) -> Void,
        report: (Int64, Int64) -> Void
    ) async throws(PostgresError) {
        let token = token
        var last: Int64 = 0
        let end = try await connection.run { connection throws(PostgresError) in
            try connection.query(ErasureStatements.lastQuarantined).integer(0, 0) ?? 0
        }
        while last < end {
            let start = last
            let part = try await connection.run { connection throws(PostgresError) in
                var parameters = PostgresParameters()
                parameters.append(start)
                let rows = try connection.query(ErasureStatements.stanzas, parameters)
                let ids = (0..<rows.count).compactMap { rows.integer($0, 0) }
                let held = (0..<rows.count).filter { StanzaText.holds(token, rows.bytes($0, 1) ?? []) }
                return (last: ids.last, held: held.compactMap { rows.integer($0, 0) })
            }
            guard let next = part.last else { break }
            try await found(part.held)
            last = next
            report(min(last, end), end)
        }
    }

    /// Takes the dead rows out of the table's pages, and what they held out of the statistics.
    private func vacuum(_ table: String) async throws(PostgresError) {
        do throws(PostgresError) {
            try await connection.run { connection throws(PostgresError) in
                try connection.script("VACUUM (ANALYZE) \(table)")
            }
        } catch  where error.sqlState == "42P01" {}
    }

    private func names(_ sql: String) async throws(PostgresError) -> [String] {
        try await connection.run { connection throws(PostgresError) in
            let result = try connection.query(sql)
            return (0..<result.count).compactMap { result.text($0, 0) }
        }
    }

    private func pause() async throws(PostgresError) {
        do {
            try await Task.sleep(for: rest)
        } catch {
            throw PostgresError(.timeout, "cancelled between two steps", sqlState: "57014")
        }
    }
}

/// The statements of an erasure.
private enum ErasureStatements {
    /// Every partition, whatever it is called; they go into texts.
    static let partitions = """
        SELECT format('%I.%I', n.nspname, c.relname)
        FROM upstream.partitions() AS p
        JOIN pg_class AS c ON c.oid = p.relation JOIN pg_namespace AS n ON n.oid = c.relnamespace
        ORDER BY p.since
        """

    /// Waits for the end of the transaction that retention is in, if it is in one.
    static let awaitRetention = "SELECT pg_advisory_xact_lock(hashtextextended('upstream.retention', 0))"

    static let count = """
        WITH body AS MATERIALIZED (
            SELECT message_key AS key FROM upstream.messages WHERE device_key = $1
        ), content AS MATERIALIZED (
            SELECT upstream.release_key(message_key, fingerprint) AS key FROM upstream.conflicts WHERE device_key = $1
        ), kept AS MATERIALIZED (
            SELECT message_key AS key FROM upstream.dead_messages WHERE device_key = $1
        ), known AS MATERIALIZED (
            SELECT key FROM body UNION ALL SELECT key FROM content UNION ALL SELECT key FROM kept
        )
        SELECT
            (SELECT count(*) FROM body),
            (SELECT count(*) FROM kept),
            (SELECT count(*) FROM content),
            (SELECT count(*) FROM upstream.deliveries WHERE device_key = $1 OR message_key IN (SELECT key FROM known)),
            (SELECT count(*) FROM upstream.dead_letters WHERE device_key = $1 OR message_key IN (SELECT key FROM known))
        """

    /// Where content is kept.
    enum Bodies: Sendable {
        /// A partition of `messages`.
        case day(String)
        /// `dead_messages`.
        case deadMessages
        /// `conflicts`; a released one has deliveries under a key of its own.
        case conflicts

        var choose: String {
            switch self {
            case .day, .deadMessages:
                "SELECT message_key, ctid::text FROM \(table) WHERE device_key = $1 LIMIT $2 FOR UPDATE"
            case .conflicts:
                """
                SELECT upstream.release_key(message_key, fingerprint), ctid::text FROM upstream.conflicts
                WHERE device_key = $1 LIMIT $2 FOR UPDATE
                """
            }
        }

        var delete: String { "DELETE FROM \(table) WHERE ctid = ANY ($1::text[]::tid[])" }

        private var table: String {
            switch self {
            case .day(let partition): partition
            case .deadMessages: "upstream.dead_messages"
            case .conflicts: "upstream.conflicts"
            }
        }
    }

    static let queues = """
        WITH waiting AS (
            DELETE FROM upstream.deliveries WHERE message_key = ANY ($1) RETURNING 1
        ), dead AS (
            DELETE FROM upstream.dead_letters WHERE message_key = ANY ($1) RETURNING 1
        )
        SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM dead)
        """

    static let rest = """
        WITH waiting AS (
            DELETE FROM upstream.deliveries WHERE device_key = $1 RETURNING 1
        ), dead AS (
            DELETE FROM upstream.dead_letters WHERE device_key = $1 RETURNING 1
        )
        SELECT (SELECT count(*) FROM waiting), (SELECT count(*) FROM dead)
        """

    static let lastQuarantined = "SELECT max(id) FROM upstream.quarantine"

    /// At most 500 rows, and 8 MiB but for the last of them.
    static let stanzas = """
        SELECT id, stanza FROM (
            SELECT id, stanza, sum(octet_length(stanza)) OVER (ORDER BY id) - octet_length(stanza) AS before
            FROM (SELECT id, stanza FROM upstream.quarantine WHERE id > $1 ORDER BY id LIMIT 500) AS next
        ) AS part
        WHERE before < 8 << 20 ORDER BY id
        """

    static let quarantine = "DELETE FROM upstream.quarantine WHERE id = ANY ($1)"
}
