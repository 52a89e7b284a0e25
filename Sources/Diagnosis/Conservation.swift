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
    private var since: Timestamp
    private var until: Timestamp

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

    private struct Extent: Sendable {
        var now: Timestamp
        var blocks: Int64
        var queue: Int64
        var partitions: [Day]
    }

    private struct Day: Sendable {
        var name: String
        var since: Timestamp
        var until: Timestamp
    }

    /// Makes every check except the one against a file.
    package func run(progress: Progress = { _, _ in }) async throws(PostgresError) -> ConservationReport {
        var report = ConservationReport()
        for check in ConservationCheck.allCases where check != .ackedIsKnown { report.update(check, 0, wrong: 0, []) }
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

        var missing: [String: (count: Int64, keys: [String])] = [:]
        var dropped: Set<UTCDay> = []
        var matched: [UTCDay: Int64] = [:]
        for chunk in 0..<chunks {
            let blocks = chunk * parts.blocks..<(chunk + 1) * parts.blocks
            for day in try await ledger(blocks) {
                if day.dropped > 0 { dropped.insert(day.day) }
                matched[day.day, default: 0] += day.bodies
                add(day, to: &report, &missing, extent.partitions)
            }
            advance()
        }
        try await judge(missing, &report)
        try await judge(dropped: dropped, &report)
        for day in days {
            let known = matched.filter { day.since <= $0.key.start && $0.key.start < day.until }.reduce(0) {
                $0 + $1.value
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
            let days = try connection.run(AuditCheckStatements.partitions).map { row throws(PostgresError) in
                Day(name: try row.next(), since: try row.next(), until: try row.next())
            }
            return try connection.run(AuditCheckStatements.extent).only { row throws(PostgresError) in
                Extent(now: try row.next(), blocks: try row.next(), queue: try row.next(), partitions: days)
            }
        }
    }

    // MARK: The ledger

    private struct LedgerDay: Sendable {
        var day: UTCDay
        var rows: Int64
        var bodies: Int64
        var kept: Int64
        var dropped: Int64
        var missing: Int64
        var keys: [String]
    }

    private func ledger(_ blocks: Range<Int64>) async throws(PostgresError) -> [LedgerDay] {
        let (since, until) = (since, until)
        return try await part { connection throws(PostgresError) in
            // Only the days of these blocks are joined.
            let span = try connection.run(AuditCheckStatements.span(blocks)).only { row throws(PostgresError) in
                (first: try row.next(Timestamp?.self), last: try row.next(Timestamp?.self))
            }
            guard let first = span.first, let last = span.last else { return [] }
            let sql = AuditCheckStatements.ledger(
                blocks,
                since: max(since, first),
                until: min(until, last + .microseconds(1))
            )
            return try connection.run(sql).map { row throws(PostgresError) in
                LedgerDay(
                    day: UTCDay(number: try row.next()),
                    rows: try row.next(),
                    bodies: try row.next(),
                    kept: try row.next(),
                    dropped: try row.next(),
                    missing: try row.next(),
                    keys: try row.next()
                )
            }
        }
    }

    private func add(
        _ day: LedgerDay,
        to report: inout ConservationReport,
        _ missing: inout [String: (count: Int64, keys: [String])],
        _ partitions: [Day]
    ) {
        report.ledger.rows += day.rows
        report.ledger.bodies += day.bodies
        report.ledger.kept += day.kept
        report.ledger.dropped += day.dropped
        guard day.missing > 0 else { return }
        // Nothing can have been erased from a partition created meanwhile.
        let name = partitions.first { $0.since <= day.day.start && day.day.start < $0.until }?.name ?? "?"
        let known = missing[name] ?? (0, [])
        missing[name] = (known.count + day.missing, known.keys + day.keys)
    }

    /// What `forget` has recorded: bodies by partition, and rows that an earlier version recorded without their days.
    private func erased() async throws(PostgresError) -> (days: [String: Int64], undated: Int64) {
        let entries = try await connection.result(of: AuditCheckStatements.erasures).map { row throws(PostgresError) in
            (subject: try row.next(String.self), count: try row.next(Int64.self))
        }
        var days: [String: Int64] = [:]
        var undated: Int64 = 0
        for entry in entries {
            for (day, count) in ErasureTrail.bodies(in: entry.subject) { days[day, default: 0] += Int64(count) }
            if !ErasureTrail.isDated(entry.subject) { undated += entry.count }
        }
        return (days, undated)
    }

    /// Subtracts what `forget` has recorded for each partition; the rest is missing.
    private func judge(
        _ missing: [String: (count: Int64, keys: [String])],
        _ report: inout ConservationReport
    ) async throws(PostgresError) {
        var recorded: (days: [String: Int64], undated: Int64) = ([:], 0)
        if !missing.isEmpty { recorded = try await erased() }
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
        let policy = try await connection.result(of: AuditCheckStatements.retention).first {
            row throws(PostgresError) in
            (
                end: try row.next(Timestamp.self), setAt: try row.next(Timestamp.self),
                last: try row.next(Timestamp?.self)
            )
        }
        let wrong = days.filter { day in
            guard let policy, let last = policy.last else { return true }
            return last < day.end || (day.end > policy.end && day.end > policy.setAt)
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
        typealias Found = (bodies: Int64, unknown: Int64, moved: Int64, unknownKeys: [String], movedKeys: [String])
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
                try connection.run(sql).only { row throws(PostgresError) -> Found in
                    (try row.next(), try row.next(), try row.next(), try row.next(), try row.next())
                }
            }
            report.update(.bodyInLedger, found.bodies, wrong: found.unknown, found.unknownKeys)
            report.update(.oneBody, found.bodies, wrong: found.moved, found.movedKeys)
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

    private func queue(
        _ keys: ClosedRange<Digest128>,
        _ report: inout ConservationReport
    ) async throws(PostgresError) {
        typealias Found = (kind: String, count: Int64, wrong: Int64, names: [String])
        let sql = AuditCheckStatements.queue(keys, since: since, until: until)
        let found = try await part { connection throws(PostgresError) in
            try connection.run(sql).map { row throws(PostgresError) -> Found in
                (try row.next(), try row.next(), try row.next(), try row.next())
            }
        }
        for kind in found {
            let check: ConservationCheck =
                switch kind.kind {
                case "delivery": .deliveryHasMessage
                case "dead": .deadLetterHasMessage
                default: .blockHasMessage
                }
            report.update(check, kind.count, wrong: kind.wrong, kind.names)
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
