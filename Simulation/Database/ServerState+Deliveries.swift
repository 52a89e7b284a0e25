import Dispatcher
import Vocabulary

// Claims: the statements of `ClaimStatements`.
extension ServerState {
    /// Leases what a request asks for, in the order in which it became due.
    mutating func claim(_ request: ClaimRequest) -> [(Digest128, DeliveryRow)] {
        guard let earliest = tables.queues[request.handler]?.earliest, earliest <= now else { return [] }
        guard tables.handlers[request.handler]?.isPaused != true else { return [] }
        // Never waited for: its holder may be frozen.
        guard !request.isOrdered || tryLock(.claims(request.handler)) else { return [] }
        let found = candidates(request)
        guard !found.isEmpty else { return [] }
        let token = nextToken()
        // Of each kind.
        var bytes = (live: 0, replayed: 0)
        var leased: [(Digest128, DeliveryRow)] = []
        for (key, row) in found
        where row.isReplayed ? bytes.replayed < request.replayedBytes : bytes.live < request.bytes {
            if row.isReplayed { bytes.replayed += row.body.size } else { bytes.live += row.body.size }
            var row = row
            row.crashes = row.suspicion
            (row.owner, row.token, row.leaseUntil) = (request.owner, token, now + request.lease.microseconds)
            change(.delivery(DeliveryKey(handler: request.handler, message: key), row))
            leased.append((key, row))
        }
        return leased
    }

    /// The first rows that a request matches; also finds out when it is worth looking again.
    private mutating func candidates(_ request: ClaimRequest) -> [(key: Digest128, row: DeliveryRow)] {
        guard let queue = tables.queues[request.handler] else { return [] }
        let heads = request.isOrdered ? heads(of: queue) : nil
        var earliest = Int64.max
        var found: [(key: Digest128, row: DeliveryRow)] = []
        for (key, row) in queue.rows {
            earliest = min(earliest, max(now, row.claimableAt))
            guard row.claimableAt <= now, request.matches(row) else { continue }
            if isLocked(.delivery(DeliveryKey(handler: request.handler, message: key))) { continue }
            if let heads, let device = row.device, heads[device] != key { continue }
            found.append((key, row))
        }
        tables.queues[request.handler]?.earliest = earliest
        found.sort { $0.row.precedes($1.row, $0.key, $1.key) }
        // A probe takes the newest.
        if request.isForUntried { return Array(found.suffix(request.limit)) }
        guard !request.isForSuspects else { return Array(found.prefix(request.limit)) }
        let live = found.filter { !$0.row.isReplayed }.prefix(request.limit)
        let rest = min(request.replayed, max(request.limit - live.count, request.owed))
        return Array(live + found.filter(\.row.isReplayed).prefix(rest))
    }

    /// The oldest delivery of each device that has none under lease.
    private func heads(of queue: DeliveryQueue) -> [Digest128: Digest128] {
        var heads: [Digest128: (receivedAt: Int64, key: Digest128)] = [:]
        var busy: Set<Digest128> = []
        for (key, row) in queue.rows {
            guard let device = row.device else { continue }
            if !row.isFree(at: now) { busy.insert(device) }
            guard let head = heads[device], (head.receivedAt, head.key) < (row.receivedAt, key) else {
                heads[device] = (row.receivedAt, key)
                continue
            }
        }
        return heads.filter { !busy.contains($0.key) }.mapValues(\.key)
    }

    /// The row if a lease is still ours.
    func held(_ key: Digest128, _ token: Int64, of handler: String) -> DeliveryRow? {
        guard let row = tables.queues[handler]?.rows[key], row.token == token, row.owner != nil else { return nil }
        return row
    }

    // MARK: Blocks

    /// Turns blocks whose lease has ended into rows; returns how many rows.
    mutating func unpackExpired() -> Int {
        let expired = tables.blocks.filter { $0.value.leaseUntil <= now && !isLocked(.block($0.key)) }
        var found = 0
        for (key, block) in expired {
            change(.block(key, nil))
            for body in block.bodies { found += unpack(body, of: key, block) ? 1 : 0 }
        }
        if found > 0 { current.notifies = true }
        return found
    }

    private mutating func unpack(_ body: StoredBody, of key: BlockKey, _ block: BlockRow) -> Bool {
        let delivery = DeliveryKey(handler: key.handler, message: body.message.messageKey)
        guard tables.queues[key.handler]?.rows[delivery.message] == nil else { return false }
        var row = DeliveryRow(body: body, receivedAt: body.message.receivedAt, nextAttemptAt: now)
        (row.owner, row.token, row.leaseUntil) = (block.owner, key.token, block.leaseUntil)
        change(.delivery(delivery, row))
        return true
    }

    /// Deletes blocks that hold as many deliveries as their worker knows; returns their numbers.
    mutating func complete(_ blocks: [BlockSettlement], of handler: String) -> Set<Int64> {
        var gone: Set<Int64> = []
        for block in blocks {
            let key = BlockKey(token: block.token, number: block.number, handler: handler)
            guard let row = tables.blocks[key], row.bodies.count == block.count else { continue }
            change(.block(key, nil))
            gone.insert(block.number)
        }
        return gone
    }

    /// Turns blocks into rows under the same lease, less what is done; returns the number of these.
    mutating func unpack(_ blocks: [BlockSettlement], token: Int64, of handler: String) -> Int {
        let done = Set(blocks.flatMap(\.done))
        var settled = 0
        for block in blocks {
            let key = BlockKey(token: token, number: block.number, handler: handler)
            guard let row = tables.blocks[key] else { continue }
            change(.block(key, nil))
            for body in row.bodies {
                if done.contains(body.message.messageKey) { settled += 1 } else { _ = unpack(body, of: key, row) }
            }
        }
        return settled
    }

    // MARK: Rows

    /// Writes outcomes of one kind; returns how many were still ours.
    mutating func settle(_ settlements: [Settlement], of handler: String) -> Int {
        var held = 0
        for settlement in settlements {
            let key = DeliveryKey(handler: handler, message: settlement.messageKey)
            guard var row = self.held(key.message, settlement.token, of: handler) else { continue }
            held += 1
            switch settlement.outcome {
            case .done: change(.delivery(key, nil))
            case .retry(let delay, let failure):
                row.attempts += 1
                (row.crashes, row.lastError) = (0, failure.detail)
                row.release(until: now + delay.microseconds)
                change(.delivery(key, row))
            case .release(let delay, let failure):
                if let failure { row.lastError = failure.detail }
                row.release(until: now + delay.microseconds)
                change(.delivery(key, row))
            case .dead(let failure, let isCounted):
                row.attempts += isCounted ? 1 : 0
                change(.delivery(key, nil))
                let letter = DeadLetterRow(delivery: row, failure: failure.detail, group: failure.group, diedAt: now)
                change(.deadLetter(key, letter))
            }
        }
        return held
    }
}

extension ClaimRequest {
    fileprivate func matches(_ row: DeliveryRow) -> Bool {
        if isForSuspects {
            return row.crashes > 0 && row.suspicion >= suspectFrom && row.suspicion <= mostCrashes
        }
        return row.suspicion < suspectFrom && (!isForUntried || row.attempts == 0)
    }
}

extension DeliveryRow {
    fileprivate func precedes(_ other: DeliveryRow, _ key: Digest128, _ otherKey: Digest128) -> Bool {
        if nextAttemptAt != other.nextAttemptAt { return nextAttemptAt < other.nextAttemptAt }
        if receivedAt != other.receivedAt { return receivedAt < other.receivedAt }
        return key < otherKey
    }
}
