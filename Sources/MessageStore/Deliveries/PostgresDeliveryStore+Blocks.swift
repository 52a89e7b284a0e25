package import Dispatcher
import Postgres
import Synchronization
package import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int {
        // One process has one token; a renewed registration has another.
        var held = 0
        for token in Set(blocks.map(\.token)).sorted() {
            let own = blocks.filter { $0.token == token }
            var rows = SettlementRows(handler: handler)
            (rows.token, rows.history.worker) = (token, recording.worker)
            let none = rows
            held += try await run { connection throws(PostgresError) in try settle(own, none, connection) }
        }
        return held
    }

    private func settle(
        _ blocks: [BlockSettlement],
        _ none: SettlementRows,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        let isRecorded = blocks.allSatisfy { $0.attempts.count == $0.done.count }
        let now = ContinuousClock.now
        func rows(_ blocks: [BlockSettlement]) -> SettlementRows {
            var rows = none
            rows.numbers = blocks.map(\.number)
            rows.counts = blocks.map { Int64($0.count) }
            for block in blocks {
                rows.add(done: block.done, isRecorded ? block.attempts : [], ofBlock: block.number, at: now)
            }
            return rows
        }
        func numbers(_ settling: Settling, _ rows: SettlementRows) throws(PostgresError) -> [Int64] {
            try recording.run(settling, rows, isRecorded: isRecorded, connection).rows { $0 }
        }
        var held = 0
        var rest = blocks
        let complete = blocks.filter(\.isComplete)
        if !complete.isEmpty {
            let gone = try numbers(SettleStatements.completeBlocks, rows(complete))
            held = complete.reduce(0) { gone.contains($1.number) ? $0 + $1.count : $0 }
            rest.removeAll { gone.contains($0.number) }
        }
        guard !rest.isEmpty else { return held }
        var left = rows(rest)
        let unpacked = Int(try numbers(SettleStatements.unpack, left).first ?? 0)
        held += unpacked
        guard unpacked < left.keys.count else { return held }
        // They were rows from the start, or another worker has unpacked them: under the same token, unless it has gone on.
        left.tokens = left.keys.map { _ in none.token }
        return try held + run(SettlementPart(kind: .done, isRecorded: isRecorded, rows: left), connection).held
    }

    /// Unpacks the blocks of dead workers, and frees the locks of frozen ones, at most twice a second.
    func takeFromOthers(after lease: Duration) async throws(StoreError) {
        let now = ContinuousClock.now
        let isDue = walks.withLock { walks in
            if walks.isUnpacking { return false }
            if let last = walks.unpacked, now - last < .milliseconds(500) { return false }
            (walks.unpacked, walks.isUnpacking) = (now, true)
            return true
        }
        guard isDue else { return }
        defer { walks.withLock { $0.isUnpacking = false } }
        _ = try await run { connection throws(PostgresError) in
            do throws(PostgresError) {
                try connection.transaction { connection throws(PostgresError) in
                    try connection.becomeOurselves()
                    _ = try connection.run(DeliveryStatements.endUnread, lease)
                }
            } catch {
                // A site may deny pg_terminate_backend.
                guard error.failureClass == .permission else { throw error }
            }
            try unpackExpired(connection)
        }
    }

    /// Turns the blocks of dead workers into rows, and tells those who may want them.
    func unpackExpired(_ connection: isolated PostgresConnection) throws(PostgresError) {
        let count: Int = try connection.run(DeliveryStatements.unpackExpired, ()).value()
        if count > 0 { connection.notifyAfterCommit(DeliveryBell.channel) }
    }
}
