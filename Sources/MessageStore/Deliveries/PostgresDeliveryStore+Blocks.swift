package import Pipeline
import Postgres
import Synchronization
import Vocabulary

extension PostgresDeliveryStore {
    package func settle(_ blocks: [BlockSettlement], of handler: String) async throws(StoreError) -> Int {
        // One process has one token; a renewed registration has another.
        var held = 0
        for token in Set(blocks.map(\.token)).sorted() {
            let own = blocks.filter { $0.token == token }
            held += try await run { connection throws(PostgresError) in
                try settle(own, BlockRows(handler: handler, token: token, worker: recording.worker), connection)
            }
        }
        return held
    }

    private func settle(
        _ blocks: [BlockSettlement],
        _ none: BlockRows,
        _ connection: isolated PostgresConnection
    ) throws(PostgresError) -> Int {
        let isRecorded = blocks.allSatisfy { $0.attempts.count == $0.done.count }
        let now = ContinuousClock.now
        var held = 0
        var rest = blocks
        let complete = blocks.filter(\.isComplete)
        if !complete.isEmpty {
            var rows = none
            rows.numbers = complete.map(\.number)
            rows.counts = complete.map { Int64($0.count) }
            if isRecorded { for block in complete { rows.add(block, now) } }
            let gone = try recording.write(isRecorded, connection) { connection throws(PostgresError) in
                try connection.run(AttemptStatements.completeBlocks, rows)
            } otherwise: { connection throws(PostgresError) in
                try connection.run(DeliveryStatements.completeBlocks, rows)
            }.numbers()
            held = complete.reduce(0) { gone.contains($1.number) ? $0 + $1.count : $0 }
            rest.removeAll { gone.contains($0.number) }
        }
        guard !rest.isEmpty else { return held }
        var rows = none
        rows.numbers = rest.map(\.number)
        if isRecorded {
            for block in rest { rows.add(block, now) }
        } else {
            rows.done = rest.flatMap(\.done)
        }
        let unpacked =
            try recording.write(isRecorded, connection) { connection throws(PostgresError) in
                try connection.run(AttemptStatements.unpack, rows)
            } otherwise: { connection throws(PostgresError) in
                try connection.run(DeliveryStatements.unpack, rows)
            }.numbers().first ?? 0
        held += Int(unpacked)
        guard Int(unpacked) < rows.done.count else { return held }
        // They were rows from the start, or another worker has unpacked them: under the same token, unless it has gone
        // on.
        var leases = LeaseRows(handler: none.handler)
        leases.worker = none.worker
        leases.keys = rows.done
        leases.tokens = rows.done.map { _ in none.token }
        (leases.ages, leases.durations) = (rows.ages, rows.durations)
        let part = SettlementPart(kind: .done, isRecorded: isRecorded, rows: leases)
        return try held + run(part, isByDevice: false, connection).held
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
                try connection.run(DeliveryStatements.endUnread, lease)
            } catch {
                // A site may deny pg_terminate_backend.
                guard error.failureClass == .permission else { throw error }
            }
            return try connection.run(DeliveryStatements.unpackExpired, ())
        }
    }
}

extension PostgresResult {
    /// The rows' only column.
    fileprivate func numbers() throws(PostgresError) -> [Int64] {
        try map { row throws(PostgresError) in try row.next(Int64.self) }
    }
}

extension BlockRows {
    private static var span: Int64 { SettlementPart.span }

    /// Adds a block's finished messages, in parts received within a second: almost always one.
    fileprivate mutating func add(_ block: BlockSettlement, _ now: ContinuousClock.Instant) {
        guard let some = block.attempts.first?.receivedAt else { return }
        var (first, last) = (some, some)
        for attempt in block.attempts {
            first = min(first, attempt.receivedAt)
            last = max(last, attempt.receivedAt)
        }
        guard last - first > Self.span else { return add(block, block.done.indices.map(\.self), first, last, now) }
        let sorted = block.done.indices.sorted { block.attempts[$0].receivedAt < block.attempts[$1].receivedAt }
        var part: [Int] = []
        var start = first
        for index in sorted {
            let time = block.attempts[index].receivedAt
            if time - start > Self.span {
                add(block, part, start, block.attempts[part.last ?? index].receivedAt, now)
                part = []
                start = time
            }
            part.append(index)
        }
        add(block, part, start, last, now)
    }

    private mutating func add(
        _ block: BlockSettlement,
        _ indices: [Int],
        _ first: Int64,
        _ last: Int64,
        _ now: ContinuousClock.Instant
    ) {
        parts.append(block.number)
        lows.append(Int64(done.count + 1))
        for index in indices {
            done.append(block.done[index])
            ages.append(Seconds(block.attempts[index].started.duration(to: now)))
            durations.append(Seconds(block.attempts[index].took))
        }
        highs.append(Int64(done.count))
        firsts.append(Timestamp(microseconds: first))
        lasts.append(Timestamp(microseconds: last))
    }
}
