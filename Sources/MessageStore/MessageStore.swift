package import Dispatcher
package import Ingest
package import Postgres
import Synchronization
package import Vocabulary

/// A writer of messages: commits batches over its own connection.
package final class MessageStore: MessageWriter {
    let client: PostgresClient
    let senders: [[UInt8]]
    private let status: CommitStatus?
    private let standbyWait: StandbyWait
    private let history = InsertHistory()
    private let clock: DatabaseClock?
    private let bell: DeliveryBell?

    /// Makes a writer that connects on demand.
    ///
    /// `senders` are the configured ids, in the order of ``IncomingMessage/sender``. `status` learns what commits wait for;
    /// the clock that stamps messages learns the database's time with each session, and when it refuses theirs; without
    /// `bell`, the writer's own session wakes other workers.
    package init(
        _ settings: PostgresSettings,
        senders: [String],
        status: CommitStatus? = nil,
        clock: DatabaseClock? = nil,
        bell: DeliveryBell? = nil
    ) {
        var settings = settings
        settings.isWriter = true
        // Messages wait whenever it connects.
        settings.reconnectMaximum = min(settings.reconnectMaximum, 500)
        let standbyWait = StandbyWait(status)
        self.standbyWait = standbyWait
        self.status = status
        (self.clock, self.bell) = (clock, bell)
        client = PostgresClient(
            settings,
            clock: clock,
            onStandbyWait: { standbyWait.began() },
            onWarning: { status?.warned(sqlState: $0.sqlState, routine: $0.routine, text: $0.text) }
        )
        self.senders = senders.map { [UInt8]($0.utf8) }
    }

    /// The connection's thread: a batch changes threads only when it arrives and when its acks leave.
    package var executor: (any TaskExecutor)? { client.taskExecutor }

    /// Ends the session; a later commit opens another.
    package func close() async { await client.close() }

    package func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        guard !batch.isEmpty else { return [] }
        let commit = BatchCommit(
            batch: batch,
            plan: BatchPlan(batch),
            offer: offer,
            senders: senders,
            isRetry: isRetry,
            history: history,
            times: clock == nil ? nil : BatchPlan.times(batch),
            bell: bell
        )
        let outcomes = try await run { [clock] connection throws(PostgresError) in
            do throws(PostgresError) {
                return try commit.run(connection)
            } catch {
                if error.sqlState == StoreStatements.misdated { try clock?.look(connection) }
                throw error
            }
        }
        // The try that committed may have had no reply.
        if isRetry { bell?.ring() }
        return outcomes
    }

    /// Runs a commit's statements and tracks what they wait for.
    func run<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws(PostgresError) -> T
    ) async throws(StoreError) -> T {
        do throws(PostgresError) {
            let value = try await client.run(body)
            standbyWait.ended()
            return value
        } catch {
            // A lock of a commit that waits for the standby: whoever waits for the lock waits for the standby too.
            if error.failureClass != .lock { standbyWait.ended() }
            let failure = StoreError(error)
            if !error.refusesRow { status?.failed(failure) }
            throw failure
        }
    }
}

/// Whether this writer's commit waits for a standby.
private final class StandbyWait: Sendable {
    private let status: CommitStatus?
    private let isWaiting = Atomic(false)

    init(_ status: CommitStatus?) { self.status = status }

    func began() {
        if !isWaiting.exchange(true, ordering: .acquiringAndReleasing) { status?.standbyWaitBegan() }
    }

    func ended() {
        if isWaiting.exchange(false, ordering: .acquiringAndReleasing) { status?.standbyWaitEnded() }
    }
}

/// The statements of one commit, on the connection's thread.
///
/// Each statement is its own, idempotent transaction: whichever fails, the whole commit may run again.
struct BatchCommit {
    let batch: [IncomingMessage]
    let plan: BatchPlan
    let offer: LeaseOffer
    let senders: [[UInt8]]
    /// Whether an earlier try may have committed.
    var isRetry = false
    /// Nil for always the plain insert.
    var history: InsertHistory?
    /// The time span of all copies; nil for any.
    var times: ClosedRange<Int64>?
    /// Nil to notify on this session.
    var bell: DeliveryBell?

    func run(_ connection: isolated PostgresConnection) throws(PostgresError) -> [StoreOutcome] {
        do throws(PostgresError) {
            let outcomes = try storeMessages(connection)
            let conflicts = outcomes.contains(.conflict) ? plan.ordered.filter { outcomes[$0] == .conflict } : []
            if !conflicts.isEmpty {
                try report(connection, StoreStatements.conflicts, encoder(conflicts).conflicts()).count()
            }
            if !plan.quarantined.isEmpty { try storeQuarantine(connection) }
            return outcomes
        } catch {
            throw error.judged(batch)
        }
    }

    private func encoder(_ rows: [Int]) -> BatchEncoder { BatchEncoder(batch: batch, rows: rows, senders: senders) }

    private func storeMessages(_ connection: isolated PostgresConnection) throws(PostgresError) -> [StoreOutcome] {
        guard !plan.firsts.isEmpty else { return plan.outcomesAllNew(batch) }
        // What may already be stored is looked up by key: sending everything again may be what failed.
        var ledger = isRetry ? try readLedger(connection) : [:]
        var mayBeOurs = isRetry
        // Twice: retention may delete a ledger row between the insert that found it and the read.
        for pass in 0..<2 {
            let missing = ledger.isEmpty ? plan.firsts : plan.firsts.filter { ledger[batch[$0].messageKey] == nil }
            // What the ledger lacks after an insert is new, or something drops it: the plain insert says which.
            let isMixed = pass == 0 && history?.isMixedLikely ?? false
            let new = missing.isEmpty ? 0 : try insert(missing, isMixed: isMixed, connection)
            if pass == 0 { history?.inserted(new, of: missing.count) }
            mayBeOurs = mayBeOurs || new > 0
            if new == plan.firsts.count { return plan.outcomesAllNew(batch) }
            if new == missing.count {
                for index in missing { ledger[batch[index].messageKey] = BatchPlan.LedgerRow(batch[index]) }
            } else {
                ledger = try readLedger(connection)
            }
            if let outcomes = plan.outcomes(batch, ledger: ledger, mayBeOurs: mayBeOurs) { return outcomes }
        }
        throw PostgresError(.other, "the ledger's rows vanish while a batch is committed")
    }

    /// Inserts what is new and returns how many rows that were.
    private func insert(
        _ rows: [Int],
        isMixed: Bool,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        guard connection.isSafeAlone, rows.count == 1, offer.local.isEmpty, let history, history.isWorthIt else {
            return try insertBatch(rows, isMixed: isMixed, connection)
        }
        let isStored = try insertAlone(rows[0], connection)
        let stored = isStored ? 1 : try insertBatch(rows, isMixed: isMixed, connection)
        if stored == 1 { history.newMessage(isDeclined: !isStored) }
        return stored
    }

    private func insertBatch(
        _ rows: [Int],
        isMixed: Bool,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        let first = try callInsert(encoder(rows), isMixed: isMixed, connection)
        guard case .failed(let error) = first, error.failureClass == .missingPartition else { return try first.count() }
        for day in Set(rows.map { UTCDay(microseconds: batch[$0].receivedAt) }).sorted() {
            _ = try Partitions.ensure(connection, from: day, to: day)
        }
        return try callInsert(encoder(rows), isMixed: isMixed, connection).count()
    }

    private func callInsert(
        _ encoder: BatchEncoder,
        isMixed: Bool,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> RowReport {
        var parameters = encoder.newMessages()
        parameters.append(offer)
        encoder.origins(&parameters)
        parameters.append(offer.token != 0)
        parameters.append(isMixed)
        parameters.append(isRetry)
        let report = try report(connection, StoreStatements.insert, parameters)
        if case .stored(_, isElsewhere: true) = report {
            if let bell { bell.ring() } else { connection.notifyAfterCommit(DeliveryBell.channel) }
        }
        return report
    }

    /// Calls a function that returns refused rows instead of failing.
    private func report(
        _ connection: isolated PostgresConnection,
        _ statement: PostgresStatement,
        _ parameters: consuming PostgresParameters
    ) throws(PostgresError) -> RowReport {
        try RowReport(execute(connection, statement, parameters))
    }

    /// Runs a statement that stores what came at ``times``.
    func execute(
        _ connection: isolated PostgresConnection,
        _ statement: PostgresStatement,
        _ parameters: consuming PostgresParameters
    ) throws(PostgresError) -> PostgresResult {
        for bound in [times?.lowerBound, times?.upperBound] {
            bound.map(Timestamp.init(microseconds:)).append(to: &parameters)
        }
        let result = try connection.executeSafely(statement, parameters)
        guard result.count > 0 else {
            let text = "messages' times are too far from the database's"
            throw PostgresError(.other, text, sqlState: StoreStatements.misdated)
        }
        return result
    }

    func readLedger(
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [Digest128: BatchPlan.LedgerRow] {
        try Self.ledger(connection.executeSafely(StoreStatements.ledger, encoder(plan.firsts).keys()))
    }

    static func ledger(_ result: PostgresResult) throws(PostgresError) -> [Digest128: BatchPlan.LedgerRow] {
        var ledger: [Digest128: BatchPlan.LedgerRow] = [:]
        ledger.reserveCapacity(result.count)
        for index in 0..<result.count {
            try result.read(index) { row throws(PostgresError) in
                ledger[try row.next()] = BatchPlan.LedgerRow(fingerprint: try row.next(), receivedAt: try row.next())
            }
        }
        return ledger
    }

    /// Stores the copies for quarantine.
    ///
    /// Ids that `text` can't hold are left out, so a row refused here has nowhere else to go: alone, it waits.
    private func storeQuarantine(_ connection: isolated PostgresConnection) throws(PostgresError) {
        let report = try report(connection, StoreStatements.quarantine, encoder(plan.quarantined).quarantine())
        if case .failed(var error) = report, batch.count == 1 {
            error.refusesRow = false
            throw error
        }
        try report.count()
    }
}
