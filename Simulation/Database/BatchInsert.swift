import Dispatcher
import MessageStore
import Vocabulary

/// What the storing functions of the schema do with the rows of a batch (`upstream.store_batch` and its neighbours).
struct BatchInsert: Sendable {
    let batch: [IncomingMessage]
    let senders: [String]
    let offer: LeaseOffer
    /// The time span of all copies; nil for any.
    let times: ClosedRange<Int64>?

    /// Stores the rows that are new, with their deliveries; returns how many these were.
    func messages(_ rows: [Int], _ state: inout ServerState) throws(StoreError) -> Int {
        try checkTimes(state)
        let new = rows.filter { state.tables.messages[batch[$0].messageKey] == nil }
        guard !new.isEmpty else { return 0 }
        try checkRegistration(state)
        if let refuses = state.refuses {
            for row in new {
                if let sqlState = refuses(batch[row]) { throw .raised(sqlState, refusesRow: true) }
            }
        }
        let isQueued = !state.tables.subscriptions.isEmpty
        var bodies: [StoredBody] = []
        // Bodies in the order of arrival.
        for row in isQueued ? new.sorted() : new {
            if isQueued { bodies.append(StoredBody(batch[row], senderID: senders[Int(batch[row].sender)])) }
            let body = isQueued && state.keepsBodies ? bodies.last : nil
            state.change(
                .message(
                    batch[row].messageKey,
                    MessageRow(
                        fingerprint: batch[row].fingerprint,
                        receivedAt: batch[row].receivedAt,
                        deviceKey: batch[row].deviceKey,
                        body: body
                    )
                )
            )
        }
        if isQueued { queue(bodies, isWhole: new.count == rows.count, &state) }
        return new.count
    }

    /// After a failover the database may not know what this worker's handlers have subscribed to.
    private func checkRegistration(_ state: borrowing ServerState) throws(StoreError) {
        guard offer.token != 0 else { return }
        for handler in offer.local {
            let row = state.tables.registrations[RegistrationKey(token: offer.token, handler: handler)]
            guard row?.worker == offer.owner else { throw .raised("UW003") }
        }
    }

    private func checkTimes(_ state: borrowing ServerState) throws(StoreError) {
        guard let times else { return }
        let now = state.now
        let isDated =
            times.lowerBound >= now - StampLimits.oldest.microseconds
            && times.upperBound <= now + StampLimits.ahead.microseconds
        guard isDated else { throw .raised("UW004") }
    }

    // MARK: Deliveries

    private func queue(_ bodies: [StoredBody], isWhole: Bool, _ state: inout ServerState) {
        let (now, leaseEnd) = (state.now, state.now + offer.duration.microseconds)
        var isElsewhere = false
        // In a fixed order: a seed gives the same run each time.
        let handlers = Dictionary(grouping: state.tables.subscriptions) { $0.key.handler }.sorted { $0.key < $1.key }
        for (handler, subscriptions) in handlers {
            let asked = state.tables.registrations[RegistrationKey(token: offer.token, handler: handler)]
            let isFiltered = subscriptions.contains { $0.value.filters != nil }
            let isPacked = offer.packed.contains(handler) && asked != nil && !isFiltered
            let isOffered = offer.handlers.contains(handler) && !isFiltered
            let isLocal = offer.local.contains(handler) && !isFiltered
            let isForAll = subscriptions.contains { $0.key.category == "*" && !$0.value.isByDevice }
            if isWhole, isPacked, isForAll, asked?.categories.contains("*") == true {
                let block = BlockRow(owner: offer.owner, leaseUntil: leaseEnd, bodies: bodies)
                state.change(.block(BlockKey(token: offer.token, number: offer.block, handler: handler), block))
                continue
            }
            var packed: [StoredBody] = []
            for body in bodies {
                let category = body.category
                let subscription = subscriptions.first { SubscriptionKey.isMatch($0.key.category, category) }
                guard let isByDevice = subscription?.value.isByDevice, wants(body, subscription?.value, state) else {
                    continue
                }
                let isAsked = asked?.asks(for: category) ?? true
                if !(isLocal && isAsked) { isElsewhere = true }
                if isPacked, !isByDevice, isAsked {
                    packed.append(body)
                    continue
                }
                let key = DeliveryKey(handler: handler, message: body.message.messageKey)
                guard state.tables.queues[handler]?.rows[key.message] == nil else { continue }
                var row = DeliveryRow(body: body, receivedAt: body.message.receivedAt, nextAttemptAt: now)
                if isByDevice { row.device = body.message.deviceKey }
                if isOffered, isAsked { (row.owner, row.token, row.leaseUntil) = (offer.owner, offer.token, leaseEnd) }
                state.change(.delivery(key, row))
            }
            guard !packed.isEmpty else { continue }
            let block = BlockRow(owner: offer.owner, leaseUntil: leaseEnd, bodies: packed)
            state.change(.block(BlockKey(token: offer.token, number: offer.block, handler: handler), block))
        }
        if isElsewhere { state.current.notifies = true }
    }

    /// Whether a message passes.
    private func wants(_ body: StoredBody, _ subscription: SubscriptionRow?, _ state: borrowing ServerState) -> Bool {
        let passes = state.passes
        return subscription?.filters?.contains { passes($0, body) } ?? true
    }

    func ledger(_ rows: [Int], _ state: borrowing ServerState) -> [Digest128: BatchPlan.LedgerRow] {
        var ledger: [Digest128: BatchPlan.LedgerRow] = [:]
        for row in rows {
            let key = batch[row].messageKey
            guard let known = state.tables.messages[key] else { continue }
            ledger[key] = BatchPlan.LedgerRow(
                fingerprint: known.fingerprint,
                receivedAt: Timestamp(microseconds: known.receivedAt)
            )
        }
        return ledger
    }

    func conflicts(_ rows: [Int], _ state: inout ServerState) throws(StoreError) {
        try checkTimes(state)
        let copies = Dictionary(grouping: rows) {
            ConflictKey(message: batch[$0].messageKey, fingerprint: batch[$0].fingerprint)
        }
        for (key, rows) in copies {
            let known = state.tables.conflicts[key]
            if let row = odd(rows, after: known) { state.change(.conflict(key, row)) }
        }
    }

    func quarantine(_ rows: [Int], _ state: inout ServerState) throws(StoreError) {
        try checkTimes(state)
        let copies = Dictionary(grouping: rows) {
            QuarantineKey(senderID: senders[Int(batch[$0].sender)], digest: BatchEncoder.digest(batch[$0]))
        }
        for (key, rows) in copies {
            let known = state.tables.quarantine[key]
            if let row = odd(rows, after: known) { state.change(.quarantine(key, row)) }
        }
    }

    /// The row of these copies; nil if they have been counted, as a copy with the row's own time has.
    private func odd(_ rows: [Int], after known: OddRow?) -> OddRow? {
        guard let first = rows.min(by: { batch[$0].receivedAt < batch[$1].receivedAt }) else { return nil }
        let last = rows.reduce(Int64.min) { max($0, batch[$1].receivedAt) }
        guard var row = known else {
            return OddRow(
                body: StoredBody(batch[first], senderID: senders[Int(batch[first].sender)]),
                timesSeen: Int64(rows.count),
                receivedAt: batch[first].receivedAt,
                lastSeenAt: last
            )
        }
        guard row.lastSeenAt != last else { return nil }
        row.timesSeen += Int64(rows.count)
        row.lastSeenAt = max(row.lastSeenAt, last)
        return row
    }
}

extension StoredBody {
    var category: String {
        message.category.map { span in
            message.bytes.withUnsafeBufferPointer { String(decoding: $0[span.range], as: UTF8.self) }
        } ?? ""
    }
}
