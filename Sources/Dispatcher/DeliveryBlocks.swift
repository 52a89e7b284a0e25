package import Vocabulary

/// The result for a block: deliveries of one batch and handler that were stored in one row.
///
/// The row is a short form of leased rows. It is deleted when all of it is done; if anything else happens to one of its
/// deliveries, it is first unpacked into rows, except what is done, and these are settled one by one.
package struct BlockSettlement: Sendable, Equatable {
    /// The process's number for the block.
    package var number: Int64
    package var token: Int64
    /// How many deliveries it holds, as far as this worker knows.
    package var count: Int
    package var done: [Digest128]
    /// Their attempts, in the same order; empty without history.
    package var attempts: [AttemptRecord] = []
    /// Its share of the settlements to be written.
    var weight: Int { max(done.count, 1) }
    /// Whether all are done; otherwise the rest becomes rows.
    package var isComplete: Bool { done.count == count }

    package init(number: Int64, token: Int64, count: Int, done: [Digest128]) {
        (self.number, self.token, self.count, self.done) = (number, token, count, done)
    }
}

/// The open blocks of one handler, as this worker knows them.
struct DeliveryBlocks: Sendable {
    private struct Block: Sendable {
        var settlement: BlockSettlement
        @FixedInstant var opened: ContinuousClock.Instant
    }

    /// Few, so they are searched linearly and changed in place.
    private var open: [Block] = []
    private(set) var ready: [BlockSettlement] = []

    var isEmpty: Bool { open.isEmpty }

    mutating func open(_ number: Int64, token: Int64, count: Int, at now: ContinuousClock.Instant) {
        var settlement = BlockSettlement(number: number, token: token, count: count, done: [])
        settlement.done.reserveCapacity(count)
        open.append(Block(settlement: settlement, opened: now))
    }

    /// Takes the settlement of a delivery in a block; false if there is a row, or will be after ``ready``.
    mutating func take(_ settlement: Settlement) -> Bool {
        guard let number = settlement.block, let index = open.firstIndex(where: { $0.settlement.number == number })
        else { return false }
        guard settlement.outcome == .done else {
            unpack(at: index)
            return false
        }
        open[index].settlement.done.append(settlement.messageKey)
        if let attempt = settlement.attempt { open[index].settlement.attempts.append(attempt) }
        if open[index].settlement.isComplete { unpack(at: index) }
        return true
    }

    mutating func unpack(openedBefore limit: ContinuousClock.Instant) {
        for index in open.indices.reversed() where open[index].opened < limit { unpack(at: index) }
    }

    mutating func unpackAll() {
        for index in open.indices.reversed() { unpack(at: index) }
    }

    /// Unpacks a block that may have committed without our knowledge.
    mutating func abandon(_ number: Int64, token: Int64) {
        ready.append(BlockSettlement(number: number, token: token, count: -1, done: []))
    }

    mutating func takeReady() -> [BlockSettlement] {
        defer { ready = [] }
        return ready
    }

    private mutating func unpack(at index: Int) { ready.append(open.remove(at: index).settlement) }
}
