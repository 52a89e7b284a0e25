import NIOCore

/// The record of one sender's deliveries and acks, by which acks are judged.
///
/// A message stays until it is acked on a connection that delivered it. Messages that a connection leaves unacked are
/// redelivered on the next one to bind (docs/protocol.md, A CCS). Generated messages are numbered from 0 and take a bit
/// each; messages with their own ids ("special" ones) are numbered from -1 downwards and are kept.
struct MessageBook {
    /// A message that was not generated from the load's profile.
    struct Special {
        /// The id's bytes; a lone surrogate takes three.
        var id: [UInt8]
        /// The `to` that an ack must give.
        var to: [UInt8]
        /// The whole stanza; emptied when no longer needed.
        var stanza: [UInt8]
        /// Whether it must be acked; if not, it takes no place in the window and is never redelivered.
        var expectsAck: Bool
        var isAcked = false
        /// Whether it waits for its first delivery.
        var isNew = false
    }

    enum Verdict: Equatable {
        /// Acks a copy that this connection delivered; `first` for the message's first ack.
        case accepted(first: Bool)
        /// Every copy that this connection delivered was acked before.
        case double
        case wrongConnection
        /// For a message that must not be acked.
        case unwanted
        case unknown
    }

    private struct Ledger {
        var isOpen = true
        var copies: [Int: UInt16] = [:]
        var unacked = 0
        /// The last messages acked here, to tell a double ack from one on a wrong connection.
        var recent: [Int] = []
        var oldest = 0
    }

    private static let remembered = 512

    private let limit: Int
    private(set) var generated = 0
    private(set) var specials: [Special] = []
    private var specialByID: [[UInt8]: Int] = [:]
    private var acked = SequenceSet()
    private var ledgers: [Ledger] = []
    private var freeSlots: [Int] = []
    /// Left unacked by closed connections; redelivered when the next one binds.
    private var waiting: [Int] = []
    /// To be delivered before new messages.
    private var pending = CircularBuffer<Int>()

    private(set) var distinct = 0
    private(set) var ackedCopies = 0
    private(set) var ackedSpecials = 0

    /// A book for a load of this many messages, nil for unlimited.
    init(count: Int?) { limit = count ?? .max }

    var ackedDistinct: Int { acked.count + ackedSpecials }

    var unackedCopies: Int { ledgers.reduce(0) { $0 + $1.unacked } }

    var isComplete: Bool {
        generated == limit && acked.count == generated && unackedCopies == 0
            && specials.allSatisfy { $0.isAcked || !$0.expectsAck }
    }

    var hasMore: Bool { !pending.isEmpty || generated < limit }

    /// Opens a connection's ledger, returns its slot, and queues what closed ones left.
    mutating func open() -> Int {
        pending.append(contentsOf: waiting.sorted { Self.age($0) < Self.age($1) })
        waiting.removeAll()
        if let slot = freeSlots.popLast() {
            ledgers[slot] = Ledger()
            return slot
        }
        ledgers.append(Ledger())
        return ledgers.count - 1
    }

    /// Closes a connection's ledger; its unacked messages wait.
    mutating func close(_ slot: Int) {
        guard ledgers[slot].isOpen else { return }
        let left = ledgers[slot].copies.keys
        ledgers[slot] = Ledger(isOpen: false)
        freeSlots.append(slot)
        for sequence in left where !isAcked(sequence) && !isOutstanding(sequence) { waiting.append(sequence) }
    }

    func unacked(on slot: Int) -> Int { ledgers[slot].unacked }

    func unackedMessages(on slot: Int) -> [Int] {
        ledgers[slot].copies.keys.sorted { Self.age($0) < Self.age($1) }
    }

    /// The next message to deliver, a new one only if `fresh`; nil if there is none.
    mutating func next(fresh: Bool) -> (sequence: Int, isFirst: Bool)? {
        while let sequence = pending.popFirst() {
            if !isAcked(sequence) { return (sequence, false) }
        }
        guard fresh, generated < limit else { return nil }
        generated += 1
        return (generated - 1, true)
    }

    /// Adds a special message; a known id means another copy of that message.
    mutating func add(_ special: Special) -> Int {
        if let known = specialByID[special.id] { return known }
        specials.append(special)
        let sequence = -specials.count
        if !special.expectsAck { specials[specials.count - 1].stanza = [] }
        if !special.id.isEmpty { specialByID[special.id] = sequence }
        return sequence
    }

    /// Queues a client's message for the next connection with room; one acked before is sent again.
    mutating func relay(_ special: Special) -> Int {
        guard let known = specialByID[special.id] else {
            let sequence = add(special)
            specials[specials.count - 1].isNew = true
            pending.append(sequence)
            return sequence
        }
        let index = -known - 1
        guard !isOutstanding(known) else { return known }
        if specials[index].isAcked {
            specials[index].isAcked = false
            ackedSpecials -= 1
        }
        specials[index].stanza = special.stanza
        specials[index].to = special.to
        pending.append(known)
        return known
    }

    /// Records a copy; if a fault of this delivery has closed the connection, it waits for the next one.
    mutating func delivered(_ sequence: Int, on slot: Int, isFirst: Bool) {
        if isFirst { distinct += 1 }
        if sequence < 0, special(sequence).isNew {
            distinct += 1
            specials[-sequence - 1].isNew = false
        }
        if sequence < 0, !special(sequence).expectsAck { return }
        guard ledgers[slot].isOpen else {
            if !isAcked(sequence), !isOutstanding(sequence), !waiting.contains(sequence) { waiting.append(sequence) }
            return
        }
        ledgers[slot].copies[sequence, default: 0] += 1
        ledgers[slot].unacked += 1
    }

    func special(_ sequence: Int) -> Special { specials[-sequence - 1] }

    func special(withID id: UnsafeBufferPointer<UInt8>) -> Int? {
        specialByID.isEmpty ? nil : specialByID[Array(id)]
    }

    func isKnown(_ sequence: Int) -> Bool {
        sequence < 0 ? -sequence <= specials.count : sequence < generated
    }

    mutating func ack(_ sequence: Int, on slot: Int) -> Verdict {
        guard isKnown(sequence) else { return .unknown }
        if let copies = ledgers[slot].copies[sequence] {
            ledgers[slot].copies[sequence] = copies > 1 ? copies - 1 : nil
            ledgers[slot].unacked -= 1
            remember(sequence, on: slot)
            ackedCopies += 1
            return .accepted(first: markAcked(sequence))
        }
        if sequence < 0, !special(sequence).expectsAck { return .unwanted }
        if ledgers[slot].recent.contains(sequence) { return .double }
        return isAcked(sequence) && !isOutstanding(sequence) ? .double : .wrongConnection
    }

    private mutating func markAcked(_ sequence: Int) -> Bool {
        guard sequence < 0 else { return acked.insert(sequence) }
        let index = -sequence - 1
        guard !specials[index].isAcked else { return false }
        specials[index].isAcked = true
        specials[index].stanza = []
        ackedSpecials += 1
        return true
    }

    private mutating func remember(_ sequence: Int, on slot: Int) {
        if ledgers[slot].recent.count < Self.remembered {
            ledgers[slot].recent.append(sequence)
        } else {
            ledgers[slot].recent[ledgers[slot].oldest] = sequence
            ledgers[slot].oldest = (ledgers[slot].oldest + 1) % Self.remembered
        }
    }

    private func isAcked(_ sequence: Int) -> Bool {
        sequence < 0 ? special(sequence).isAcked : acked.contains(sequence)
    }

    func isOutstanding(_ sequence: Int, on slot: Int) -> Bool { ledgers[slot].copies[sequence] != nil }

    private func isOutstanding(_ sequence: Int) -> Bool { ledgers.contains { $0.copies[sequence] != nil } }

    /// Sorts generated messages by age, then special ones.
    private static func age(_ sequence: Int) -> Int { sequence < 0 ? Int.max / 2 - sequence : sequence }
}
