import MessageStore
package import Postgres
package import Vocabulary

/// Proves from the tables that no message is missing.
///
/// The work is split into parts: a range of the ledger's blocks, the bodies of a day or a slice of it, a key range of
/// the queue. Each part is one transaction with its own snapshot, seconds long, so that vacuum is not held back. That
/// suffices, since what is compared commits together (a ledger row with its body and deliveries, a dead letter with the
/// end of its delivery) and so is consistent in every snapshot. Nothing that exists throughout is skipped: ledger rows
/// are never changed, so none moves to a block already examined; a key belongs to one range.
package struct Conservation: Sendable {
    /// How many examples of errors are kept for each check.
    package static let examples = 20

    /// Progress of an audit, in parts done and in all.
    package typealias Progress = @Sendable (_ done: Int64, _ total: Int64) -> Void

    package struct Parts: Sendable {
        /// Blocks of the ledger, of 8 KiB and about 120 rows each.
        package var blocks: Int64 = 4_096
        /// Rows of deliveries and dead letters, by estimate.
        package var queue: Int64 = 200_000
        /// Bodies that are looked up in the ledger, if they are spread evenly over the day.
        package var bodies: Int64 = 500_000

        package init() {}
    }

    let connection: PostgresConnection
    private let parts: Parts
    private(set) var since: Timestamp
    private(set) var until: Timestamp

    /// Audits what was received at or after `since` and before `until`; nil for all.
    ///
    /// `connection` needs the rights of `upstream_reader` or `upstream_worker`.
    package init(
        _ connection: PostgresConnection,
        since: Timestamp? = nil,
        until: Timestamp? = nil,
        parts: Parts = Parts()
    ) {
        self.connection = connection
        self.parts = parts
        self.since = since ?? Timestamp(microseconds: .min)
        self.until = until ?? Timestamp(microseconds: .max)
    }

    private typealias Extent = (now: Timestamp, blocks: Int64, queue: Int64, partitions: [Day])
    private typealias Day = (name: String, since: Timestamp, until: Timestamp)
    private typealias Missing = [String: (count: Int64, keys: [String])]
    private typealias Erased = (days: [String: Int64], undated: Int64)

    /// Makes every check except those against a file and an archive.
    package func run(progress: Progress = { _, _ in }) async throws(PostgresError) -> ConservationReport {
        var report = ConservationReport()
        for check in ConservationCheck.allCases where check != .ackedIsKnown && check != .archivedIsKnown {
            report.update(check, 0, wrong: 0, [])
        }
        let extent = try await extent()
        let recorded = try await erased()
        let whole = widened(to: extent.partitions, recorded.days)
        if (whole.since, whole.until) != (since, until) {
            report.remarks.append(
                "forget has erased messages of the first or the last day, and recorded how many of all that day: it is looked at as "
                    + "a whole"
            )
        }
        try await whole.look(extent, &report, progress)
        return report
    }

    /// Widens a span that begins or ends inside a day that `forget` has erased from.
    ///
    /// Erased bodies are recorded per day, and a lost body could hide behind those of the day's other hours.
    private func widened(to days: [Day], _ erased: [String: Int64]) -> Conservation {
        var whole = self
        for day in days where erased[day.name, default: 0] > 0 {
            if day.since < since, since < day.until { whole.since = day.since }
            if day.since < until, until < day.until { whole.until = day.until }
        }
        return whole
    }

    private func look(
        _ extent: Extent,
        _ report: inout ConservationReport,
        _ progress: Progress
    ) async throws(PostgresError) {
        let days = extent.partitions.filter { $0.until > since && $0.since < until }
        let ranges = Self.keyRanges(Int(min(256, extent.queue / parts.queue + 1)))
        let chunks = (extent.blocks + parts.blocks - 1) / parts.blocks
        let total = chunks + Int64(days.count + ranges.count)
        var done: Int64 = 0
        func advance() {
            done += 1
            progress(done, total)
        }

        var missing: Missing = [:]
        var dropped: Set<UTCDay> = []
        var matched: [UTCDay: Int64] = [:]
        for chunk in 0..<chunks {
            let blocks = chunk * parts.blocks..<(chunk + 1) * parts.blocks
            for (number, rows, bodies, kept, gone, lost, keys) in try await ledger(blocks) {
                let day = UTCDay(number: number)
                if gone > 0 { dropped.insert(day) }
                matched[day, default: 0] += bodies
                report.ledger.rows += rows
                report.ledger.bodies += bodies
                report.ledger.kept += kept
                report.ledger.dropped += gone
                guard lost > 0 else { continue }
                // Nothing can have been erased from a partition created meanwhile.
                let name = extent.partitions.first { $0.since <= day.start && day.start < $0.until }?.name ?? "?"
                missing[name, default: (0, [])].count += lost
                missing[name, default: (0, [])].keys += keys
            }
            advance()
        }
        try await judge(missing, &report)
        try await judge(dropped: dropped, &report)
        for day in days {
            let known = matched.reduce(0) {
                $0 + (day.since <= $1.key.start && $1.key.start < day.until ? $1.value : 0)
            }
            let isMoving = day.until > extent.now - .seconds(86_400)
            try await bodies(max(day.since, since), min(day.until, until), known, isMoving: isMoving, &report)
            advance()
        }
        for range in ranges {
            try await queue(range, &report)
            advance()
        }
    }

    /// Runs the statements of one part in one snapshot.
    func part<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(PostgresError) -> T {
        try await connection.run { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                try connection.script(AuditCheckStatements.begin.text)
                return try body(connection)
            }
        }
    }

    private func extent() async throws(PostgresError) -> Extent {
        try await part { connection throws(PostgresError) in
            let days: [Day] = try connection.run(AuditCheckStatements.partitions).rows { ($0, $1, $2) }
            return try connection.run(AuditCheckStatements.extent).onlyRow { ($0, $1, $2, days) }
        }
    }

    // MARK: The ledger

    /// The columns of ``AuditCheckStatements/ledger(_:since:until:)``.
    private typealias LedgerDay = (Int64, Int64, Int64, Int64, Int64, Int64, [String])

    private func ledger(_ blocks: Range<Int64>) async throws(PostgresError) -> [LedgerDay] {
        try await part { [since, until] connection throws(PostgresError) in
            // Only the days of these blocks are joined.
            let span = try connection.run(AuditCheckStatements.span(blocks)).rows(as: (Timestamp?, Timestamp?).self)
            guard case (let first?, let last?)? = span.first else { return [] }
            let (since, until) = (max(since, first), min(until, last + .microseconds(1)))
            let sql = AuditCheckStatements.ledger(blocks, since: since, until: until)
            return try connection.run(sql).rows(as: LedgerDay.self)
        }
    }

    /// What `forget` has recorded: bodies by partition, and rows that an earlier version recorded without their days.
    private func erased() async throws(PostgresError) -> Erased {
        var erased: Erased = ([:], 0)
        let entries = try await connection.result(of: AuditCheckStatements.erasures).rows(as: (String, Int64).self)
        for (subject, count) in entries {
            for (day, count) in ErasureTrail.bodies(in: subject) { erased.days[day, default: 0] += Int64(count) }
            if !ErasureTrail.isDated(subject) { erased.undated += count }
        }
        return erased
    }

    /// Subtracts what `forget` has recorded for each partition; the rest is missing.
    private func judge(_ missing: Missing, _ report: inout ConservationReport) async throws(PostgresError) {
        let recorded: Erased = missing.isEmpty ? ([:], 0) : try await erased()
        report.update(.ledgerHasBody, report.ledger.rows, wrong: 0, [])
        var undatedUsed: Int64 = 0
        for (partition, found) in missing.sorted(by: { $0.key < $1.key }) {
            let explained = min(found.count, recorded.days[partition] ?? 0)
            let older = min(found.count - explained, recorded.undated - undatedUsed)
            undatedUsed += older
            report.ledger.erased += explained + older
            let wrong = found.count - explained - older
            guard wrong > 0 else { continue }
            report.ledger.missing += wrong
            report.update(.ledgerHasBody, 0, wrong: wrong, found.keys)
            if explained + older > 0 {
                report.remarks.append(
                    "\(partition): \(found.count) bodies are missing, and forget has erased \(explained + older) of them; "
                        + "which of the keys shown it erased is not recorded"
                )
            }
        }
        if undatedUsed > 0 {
            report.remarks.append(
                "\(undatedUsed) missing bodies are put down to erasures of an earlier version, which did not record their "
                    + "days"
            )
        }
    }

    /// Checks that retention may have dropped the days without a partition.
    ///
    /// They must have expired under the policy in force, or have ended before it was set; and a run or a command came
    /// after.
    private func judge(dropped days: Set<UTCDay>, _ report: inout ConservationReport) async throws(PostgresError) {
        let policy = try await connection.result(of: AuditCheckStatements.retention)
            .rows(as: (Timestamp, Timestamp, Timestamp?).self).first
        let wrong = days.filter { day in
            guard case (let end, let setAt, let last?)? = policy else { return true }
            return last < day.end || (day.end > end && day.end > setAt)
        }
        let names = wrong.sorted().map { $0.start.date }
        report.update(.daysDropped, Int64(days.count), wrong: Int64(wrong.count), names)
    }

    // MARK: Bodies and the queue

    /// Compares the bodies of a day, or part of it, with the ledger.
    ///
    /// If the ledger's rows were found to have as many bodies as there are, each body belongs to a row, since a body is
    /// found by key and time, which both tables hold once; a count suffices. If the numbers differ, or may have changed
    /// since the rows were counted, each body is looked up, slice by slice so that a busy day needs no long snapshot.
    private func bodies(
        _ since: Timestamp,
        _ until: Timestamp,
        _ known: Int64,
        isMoving: Bool,
        _ report: inout ConservationReport
    ) async throws(PostgresError) {
        let (count, isErasing) = try await part { connection throws(PostgresError) in
            (
                try connection.run(AuditCheckStatements.count(since: since, until: until)).value(Int64.self),
                try connection.run(AuditCheckStatements.isErasing).value(Bool.self)
            )
        }
        guard isMoving || isErasing || count != known else {
            report.update(.bodyInLedger, count, wrong: 0, [])
            report.update(.oneBody, count, wrong: 0, [])
            return
        }
        for slice in Self.slices(since..<until, Int(min(86_400, count / max(1, parts.bodies) + 1))) {
            let sql = AuditCheckStatements.bodies(since: slice.lowerBound, until: slice.upperBound)
            let found = try await part { connection throws(PostgresError) in
                try connection.run(sql).rows(as: (Int64, Int64, Int64, [String], [String]).self)
            }
            for (bodies, unknown, moved, unknownKeys, movedKeys) in found {
                report.update(.bodyInLedger, bodies, wrong: unknown, unknownKeys)
                report.update(.oneBody, bodies, wrong: moved, movedKeys)
            }
        }
    }

    /// Splits a time span into slices of equal length; the last one takes the rest.
    static func slices(_ time: Range<Timestamp>, _ count: Int) -> [Range<Timestamp>] {
        let length = (time.upperBound.microseconds - time.lowerBound.microseconds) / Int64(count)
        guard count > 1, length > 0 else { return [time] }
        return (0..<count).map { index in
            let start = time.lowerBound + .microseconds(length * Int64(index))
            return start..<(index == count - 1 ? time.upperBound : start + .microseconds(length))
        }
    }

    private func queue(_ keys: ClosedRange<Digest128>, _ report: inout ConservationReport) async throws(PostgresError) {
        let sql = AuditCheckStatements.queue(keys, since: since, until: until)
        let found = try await part { connection throws(PostgresError) in
            try connection.run(sql).rows(as: (String, Int64, Int64, [String]).self)
        }
        for (kind, count, wrong, names) in found {
            let check: ConservationCheck =
                switch kind {
                case "delivery": .deliveryHasMessage
                case "dead": .deadLetterHasMessage
                default: .blockHasMessage
                }
            report.update(check, count, wrong: wrong, names)
        }
    }

    /// Splits all keys into 1 to 256 ranges by their first byte: keys are digests, and spread evenly.
    static func keyRanges(_ count: Int) -> [ClosedRange<Digest128>] {
        (0..<count).map { index in
            let (low, high) = (UInt64(index * 256 / count), UInt64((index + 1) * 256 / count) - 1)
            return Digest128(high: low << 56, low: 0)...Digest128(high: high << 56 | (1 << 56 - 1), low: .max)
        }
    }
}
