package import Pipeline
import Postgres
import Synchronization
import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int {
        // One process, so one token; a registration that began anew has another.
        var held = 0
        for token in Set(blocks.map(\.token)).sorted() {
            let own = blocks.filter { $0.token == token }
            held += try await settle { connection throws(PostgresError) in
                try Self.settle(own, BlockRows(handler: handler, token: token), connection)
            }
        }
        return held
    }

    private static func settle(
        _ blocks: [BlockSettlement],
        _ none: BlockRows,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        var held = 0
        var rest = blocks
        let complete = blocks.filter(\.isComplete)
        if !complete.isEmpty {
            var rows = none
            rows.numbers = complete.map(\.number)
            rows.counts = complete.map { Int64($0.count) }
            let gone = try Set(connection.withRows(DeliveryStatements.completeBlocks, rows))
            held = complete.reduce(0) { gone.contains($1.number) ? $0 + $1.count : $0 }
            rest.removeAll { gone.contains($0.number) }
        }
        guard !rest.isEmpty else { return held }
        var rows = none
        rows.numbers = rest.map(\.number)
        rows.done = rest.flatMap(\.done)
        let unpacked = try connection.withRows(DeliveryStatements.unpack, rows).first ?? 0
        held += Int(unpacked)
        guard Int(unpacked) < rows.done.count else { return held }
        // They were rows from the start, or another worker has unpacked them: under the same token, unless it has gone on.
        var leases = LeaseRows(handler: none.handler)
        leases.keys = rows.done
        leases.tokens = rows.done.map { _ in none.token }
        let parameters = leases
        return try held
            + connection.withParameters { connection throws(PostgresError) in
                try connection.run(DeliveryStatements.complete, parameters)
            }.affectedRows
    }

    /// Unpacks what is left of workers that died, at most twice a second.
    func unpackExpired() async throws(StoreError) {
        let now = ContinuousClock.now
        let isDue = walks.withLock { walks in
            if let last = walks.unpacked, now - last < .milliseconds(500) { return false }
            walks.unpacked = now
            return true
        }
        guard isDue else { return }
        _ = try await run(claims) { connection throws(PostgresError) in
            try connection.run(DeliveryStatements.unpackExpired, ())
        }
    }
}

extension PostgresConnection {
    /// The only column of a statement's rows.
    fileprivate func withRows(
        _ statement: PreparedStatement<BlockRows>,
        _ rows: BlockRows
    ) throws(PostgresError) -> [Int64] {
        try withParameters { connection throws(PostgresError) in
            try connection.run(statement, rows)
        }.map { row throws(PostgresError) in try row.next(Int64.self) }
    }
}
