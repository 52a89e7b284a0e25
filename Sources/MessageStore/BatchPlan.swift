package import Vocabulary

/// What a batch needs from the database, decided without it, and the outcomes that follow from its replies.
package struct BatchPlan: Sendable {
    package struct LedgerRow: Sendable, Equatable {
        package var fingerprint: Digest128
        package var receivedAt: Timestamp

        package init(fingerprint: Digest128, receivedAt: Timestamp) {
            (self.fingerprint, self.receivedAt) = (fingerprint, receivedAt)
        }
    }

    /// All copies that belong in `messages`, by key and then by position in the batch.
    package let ordered: [Int]
    /// The first copy of each key, in key order.
    ///
    /// Every writer inserts in this order, which prevents deadlock.
    package let firsts: [Int]
    package let quarantined: [Int]

    /// Folds the copies of one message and sorts.
    package init(_ batch: [IncomingMessage]) {
        var entries: [Entry] = []
        entries.reserveCapacity(batch.count)
        var quarantined: [Int] = []
        let messages = batch.span
        for index in messages.indices {
            if BatchPlan.reason(messages[index]) == nil {
                entries.append(Entry(key: messages[index].messageKey, index: index))
            } else {
                quarantined.append(index)
            }
        }
        entries.sort(by: <)
        ordered = entries.map(\.index)
        self.quarantined = quarantined
        var firsts: [Int] = []
        firsts.reserveCapacity(entries.count)
        var previous: Digest128?
        for entry in entries where entry.key != previous {
            firsts.append(entry.index)
            previous = entry.key
        }
        self.firsts = firsts
    }

    /// A sort entry: keys are adjacent instead of in messages far apart.
    private struct Entry: Comparable {
        let key: Digest128
        let index: Int

        static func < (left: Entry, right: Entry) -> Bool {
            left.key == right.key ? left.index < right.index : left.key < right.key
        }
    }

    /// Why a copy goes to `quarantine`; nil if it belongs in `messages`.
    static func reason(_ message: borrowing IncomingMessage) -> QuarantineReason? {
        if let reason = message.quarantine { return reason }
        // Columns required in every row; if refused, PostgreSQL would quote the whole row in its log.
        let isWhole = message.messageID != nil && message.registrationToken != nil && message.category != nil
        return isWhole ? nil : .databaseRefused
    }

    /// The time span of all copies; nil without any.
    package static func times(_ batch: [IncomingMessage]) -> ClosedRange<Int64>? {
        let messages = batch.span
        guard !messages.isEmpty else { return nil }
        var (earliest, latest) = (messages[0].receivedAt, messages[0].receivedAt)
        for index in messages.indices {
            earliest = min(earliest, messages[index].receivedAt)
            latest = max(latest, messages[index].receivedAt)
        }
        return earliest...latest
    }

    /// The outcomes if every first copy was new.
    package func outcomesAllNew(_ batch: [IncomingMessage]) -> [StoreOutcome] {
        if firsts.count == batch.count { return [StoreOutcome](repeating: .stored, count: batch.count) }
        var outcomes = [StoreOutcome](repeating: .quarantined, count: batch.count)
        var first: Int?
        for index in ordered {
            if let known = first, batch[known].messageKey == batch[index].messageKey {
                outcomes[index] = batch[known].fingerprint == batch[index].fingerprint ? .duplicate : .conflict
            } else {
                first = index
                outcomes[index] = .stored
            }
        }
        return outcomes
    }

    /// The outcomes according to the ledger; nil if a row is missing, because retention has deleted it since.
    ///
    /// A ledger row with a first copy's own time and fingerprint was made by this batch: just now, or by an earlier
    /// commit whose reply was lost. Where neither can be (`mayBeOurs`), another worker has stored a copy with the same time.
    package func outcomes(
        _ batch: [IncomingMessage],
        ledger: [Digest128: LedgerRow],
        mayBeOurs: Bool = true
    ) -> [StoreOutcome]? {
        var outcomes = [StoreOutcome](repeating: .quarantined, count: batch.count)
        var previous: Digest128?
        for index in ordered {
            let message = batch[index]
            guard let row = ledger[message.messageKey] else { return nil }
            let isFirst = previous != message.messageKey
            previous = message.messageKey
            if row.fingerprint != message.fingerprint {
                outcomes[index] = .conflict
            } else if mayBeOurs && isFirst && row.receivedAt.microseconds == message.receivedAt {
                outcomes[index] = .stored
            } else {
                outcomes[index] = .duplicate
            }
        }
        return outcomes
    }
}

extension BatchPlan.LedgerRow {
    /// The row that a new message gets.
    package init(_ message: borrowing IncomingMessage) {
        self.init(fingerprint: message.fingerprint, receivedAt: Timestamp(microseconds: message.receivedAt))
    }
}
