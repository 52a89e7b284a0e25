package import Pipeline
package import Postgres
package import UpstreamKit

/// One writer of messages: commits batches over a connection of its own.
package final class MessageStore: MessageWriter {
    let client: PostgresClient
    let senders: [[UInt8]]

    let status: CommitStatus?

    /// A writer that connects when it is first needed.
    ///
    /// - Parameters:
    ///   - settings: The database.
    ///   - senders: The configured sender ids, in the order that ``IncomingMessage/sender`` counts them by.
    ///   - status: Is told what commits wait for.
    package init(_ settings: PostgresSettings, senders: [String], status: CommitStatus? = nil) {
        client = PostgresClient(settings)
        self.senders = senders.map { [UInt8]($0.utf8) }
        self.status = status
    }

    /// The connection's thread: a batch then changes threads when it comes and when its acks go, and not in between.
    package var executor: (any TaskExecutor)? { client.taskExecutor }

    /// Ends the session; a later commit makes another.
    package func close() async { await client.close() }

    package func commit(
        _ batch: [IncomingMessage],
        leasing offer: LeaseOffer,
        isRetry: Bool
    ) async throws(StoreError) -> [StoreOutcome] {
        guard !batch.isEmpty else { return [] }
        let plan = BatchPlan(batch)
        do throws(PostgresError) {
            return try await client.run { connection throws(PostgresError) in
                try BatchCommit(batch: batch, plan: plan, offer: offer, senders: senders).run(connection)
            }
        } catch {
            throw StoreError(
                kind: error.isEnvironment ? .unavailable : .refused,
                sqlState: error.sqlState,
                message: error.description,
                failureClass: error.failureClass.rawValue
            )
        }
    }
}

/// The statements of one commit, on the connection's thread.
///
/// Each statement is a transaction of its own, and each is idempotent: whichever of them fails, the whole commit may
/// run again.
struct BatchCommit {
    let batch: [IncomingMessage]
    let plan: BatchPlan
    let offer: LeaseOffer
    let senders: [[UInt8]]

    func run(_ connection: isolated PostgresConnection) throws(PostgresError) -> [StoreOutcome] {
        let outcomes = try storeMessages(connection)
        let conflicts = plan.ordered.filter { outcomes[$0] == .conflict }
        if !conflicts.isEmpty {
            _ = try call(connection, StoreStatements.conflicts, encoder(conflicts).messages())
        }
        if !plan.quarantined.isEmpty { try storeQuarantine(connection) }
        return outcomes
    }

    private func encoder(_ rows: [Int]) -> BatchEncoder { BatchEncoder(batch: batch, rows: rows, senders: senders) }

    private func storeMessages(_ connection: isolated PostgresConnection) throws(PostgresError) -> [StoreOutcome] {
        guard !plan.firsts.isEmpty else { return plan.outcomesAllNew(batch) }
        // Twice: retention may take a ledger row between the insert that found it and the read.
        for _ in 0..<2 {
            let new = try insert(connection)
            if new == plan.firsts.count { return plan.outcomesAllNew(batch) }
            if let outcomes = plan.outcomes(batch, ledger: try readLedger(connection)) { return outcomes }
        }
        throw PostgresError(.other, "the ledger's rows vanish while a batch is committed")
    }

    /// Inserts what is new and tells how many that were.
    private func insert(_ connection: isolated PostgresConnection) throws(PostgresError) -> Int {
        var parameters = encoder(plan.firsts).messages()
        parameters.append(offer)
        do throws(PostgresError) {
            return try call(connection, StoreStatements.insert, parameters)
        } catch  where error.failureClass == .missingPartition {
            for day in Set(plan.firsts.map { UTCDay(microseconds: batch[$0].receivedAt) }).sorted() {
                _ = try Partitions.ensure(connection, from: day, to: day)
            }
            return try call(connection, StoreStatements.insert, parameters)
        }
    }

    /// Calls one of the functions that return what was refused instead of failing.
    private func call(
        _ connection: isolated PostgresConnection,
        _ statement: PostgresStatement,
        _ parameters: borrowing PostgresParameters
    ) throws(PostgresError) -> Int {
        let result = try connection.execute(statement, parameters)
        guard let sqlState = result.text(0, 1) else { return Int(result.integer(0, 0) ?? 0) }
        // An empty name is none.
        func name(_ column: Int) -> String? { result.text(0, column).flatMap { $0.isEmpty ? nil : $0 } }
        throw PostgresError(
            sqlState: sqlState,
            severity: "ERROR",
            message: "PostgreSQL refused a row",
            table: name(2),
            constraint: name(3)
        )
    }

    func readLedger(
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> [Digest128: BatchPlan.LedgerRow] {
        let result = try connection.execute(StoreStatements.ledger, encoder(plan.firsts).keys())
        var ledger: [Digest128: BatchPlan.LedgerRow] = [:]
        ledger.reserveCapacity(result.count)
        for row in 0..<result.count {
            guard let key = result.uuid(row, 0), let fingerprint = result.uuid(row, 1),
                let receivedAt = result.timestamp(row, 2)
            else { continue }
            ledger[Digest128(high: key.high, low: key.low)] = BatchPlan.LedgerRow(
                fingerprint: Digest128(high: fingerprint.high, low: fingerprint.low),
                receivedAt: receivedAt
            )
        }
        return ledger
    }

    private func storeQuarantine(_ connection: isolated PostgresConnection) throws(PostgresError) {
        let encoder = encoder(plan.quarantined)
        do throws(PostgresError) {
            _ = try connection.execute(StoreStatements.quarantine, encoder.quarantine(withIDs: true))
        } catch  where !error.isEnvironment && batch.count == 1 {
            // Nothing but the id can be refused here, and alone in its batch there is nobody else to blame.
            _ = try connection.execute(StoreStatements.quarantine, encoder.quarantine(withIDs: false))
        }
    }
}
