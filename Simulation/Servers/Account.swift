import NIOCore
import Vocabulary

/// A sender's account at a CCS: the messages of its devices, each delivered until it is acked on one of the account's
/// streams; ``StandardAccount`` is one at another server.
class Account {
    static let senderID = "42"
    static let domain = "fcm.example.org"
    /// The most unacked copies on one stream, as servers and workers have agreed.
    static let usualWindow = 100

    private struct Message {
        let key: Digest128
        var isAcked = false
        /// How many copies were delivered, and what its device sent before it over the same stream.
        var copies = 0
        var predecessor: Int?
    }

    let scheduler: Scheduler
    let judge: Judge
    let text: MessageText
    /// What the server keeps to: it may forget its own rule.
    var window = Account.usualWindow
    private(set) var created = 0
    private(set) var ackedCount = 0
    /// The messages that the server has lost, as such servers do, and that their devices don't send again.
    var lost: Set<Int> { [] }
    private var messages: [Message] = []
    private var numbers: [Digest128: Int] = [:]
    /// Messages to be delivered again: those of streams that have ended.
    private var waiting = CircularBuffer<Int>()
    private(set) var streams: [ServerStream] = []
    private var opened = 0
    var random: SplitMix
    /// The messages not to be created beyond.
    let total: Int
    private var arrived = 0

    required init(_ scheduler: Scheduler, _ judge: Judge, _ plan: Plan) {
        (self.scheduler, self.judge, total, text) = (scheduler, judge, plan.messages, plan.text)
        random = SplitMix(seed: plan.seed, for: "account")
    }

    var address: String { "\(Self.senderID)@\(Self.domain)" }

    /// Whether every message was created, delivered and acked.
    var isDone: Bool { ackedCount == total }

    /// The oldest message without an ack, for a report.
    var firstUnacked: Int { messages.firstIndex { !$0.isAcked } ?? created }

    func open(for process: Int) -> ServerStream {
        opened += 1
        let stream = makeStream(opened, for: process)
        streams.append(stream)
        return stream
    }

    func makeStream(_ number: Int, for process: Int) -> ServerStream { ServerStream(number, for: process, of: self) }

    func ended(_ stream: ServerStream) {
        remove(stream)
        for number in stream.outstanding.keys.sorted() where !messages[number].isAcked { waiting.append(number) }
        pump()
    }

    func remove(_ stream: ServerStream) {
        streams.removeAll { $0 === stream }
        judge.note("stream \(stream.number) has ended")
    }

    /// A stream drawn for a fault; nil if there is none.
    func stream(_ draw: UInt64) -> ServerStream? {
        let bound = streams.filter { $0.phase != .over }
        return bound.isEmpty ? nil : bound[Int(draw % UInt64(bound.count))]
    }

    func number(of key: Digest128) -> Int? { numbers[key] }
    func key(_ number: Int) -> Digest128 { messages[number].key }

    func delivered(_ number: Int, after predecessor: Int?) {
        messages[number].copies += 1
        if messages[number].copies == 1 { messages[number].predecessor = predecessor }
    }

    /// The message that must be handled before this one where a handler is ordered; nil if no order is certain, as for
    /// messages that were delivered more than once.
    func predecessor(of number: Int) -> Int? {
        let message = messages[number]
        guard message.copies == 1, let before = message.predecessor, messages[before].copies == 1 else { return nil }
        return before
    }

    /// Takes this many new messages from devices.
    func arrive(_ count: Int) {
        arrived = min(arrived + count, total)
        pump()
    }

    var hasAllArrived: Bool { arrived == total }

    func isAcked(_ number: Int) -> Bool { messages[number].isAcked }

    func acked(_ number: Int) {
        guard !messages[number].isAcked else { return }
        messages[number].isAcked = true
        ackedCount += 1
    }

    /// Delivers what waits, as far as the streams' windows allow.
    func pump() {
        while !waiting.isEmpty || created < arrived {
            let free = streams.filter(\.canDeliver)
            guard !free.isEmpty else { return }
            let stream = free[random.below(free.count)]
            // A share, so that a device's messages go over several streams.
            var room = min(window - stream.outstandingCount, 1 + random.below(32))
            var batch: [Int] = []
            while room > 0, let number = next() {
                batch.append(number)
                room -= 1
            }
            if !batch.isEmpty { stream.deliver(batch) }
        }
    }

    private func next() -> Int? {
        while let number = waiting.popFirst() {
            if !messages[number].isAcked { return number }
        }
        return create()
    }

    /// A message that has arrived; nil if none has.
    func create() -> Int? {
        guard created < arrived else { return nil }
        let key = MessageText.key(created, of: Self.senderID)
        messages.append(Message(key: key))
        numbers[key] = created
        created += 1
        return created - 1
    }

    /// Delivers messages once more, over any stream: those not acked yet, or, as servers do, others too.
    func repeatSome(_ count: Int) {
        guard created > 0 else { return }
        for _ in 0..<count {
            let free = streams.filter(\.canDeliver)
            guard !free.isEmpty else { return }
            let number = drawn()
            free[random.below(free.count)].deliver([number], areOthers: random.chance(0.1))
        }
    }

    /// A message to come again: mostly one of the latest, whose first copies are under way.
    func drawn() -> Int {
        created - 1 - (random.chance(0.8) ? random.below(min(created, 200)) : random.below(created))
    }

    /// Ends every stream, in order or not.
    func restart(inOrder: Bool) {
        for stream in streams { if inOrder { stream.close() } else { stream.link?.cut() } }
    }
}
