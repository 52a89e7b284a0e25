import NIOCore
import Vocabulary

/// An account at a standard server, an ordinary Prosody or ejabberd: it has one session at a time, which keeps what is not
/// answered for, and an offline store for what comes while nobody is present.
///
/// Some devices send again what has no receipt, others send once. What the server loses of those (docs/servers.md) nobody is
/// blamed for.
final class StandardAccount: Account {
    struct Shape {
        var kind = ServerKind.prosody
        /// The most stanzas that a session keeps (`smacks_max_queue_size`, `max_ack_queue`); the worker knows it.
        var queue = 500
        /// `resume`; zero for off.
        var resume = Duration.zero
        /// When a device sends again what has no receipt, and which of two devices do.
        var patience = Duration.seconds(5)
        var senders = 1
    }

    struct Item {
        let number: Int
        /// Whether it is a copy with the same id and other content.
        var isOther = false
        /// Whether it comes from the offline store.
        var isLate = false
    }

    private let shape: Shape
    private let judgesQueue: Bool
    private(set) var session: StandardSession?
    private var sessions = 0
    /// The offline store in its order, by node, and what is on its way into it.
    private var stored: [(node: Int, item: Item)] = []
    private var storing = CircularBuffer<Item>()
    private var nodes = 0
    /// How many copies of each message the server has.
    private var held: [Int: Int] = [:]
    private var gone: Set<Int> = []
    override var lost: Set<Int> { gone }
    private var refusesUntil: UInt64 = 0

    required init(_ scheduler: Scheduler, _ judge: Judge, _ plan: Plan) {
        (shape, judgesQueue) = (plan.standard ?? Shape(), plan.judgesQueue)
        super.init(scheduler, judge, plan)
    }

    override func makeStream(_ number: Int, for process: Int) -> ServerStream {
        StandardStream(number, for: process, of: self, isEjabberd: shape.kind == .ejabberd)
    }

    // MARK: Devices

    private func sendsAgain(_ number: Int) -> Bool { text.device(of: number) % 2 < shape.senders }

    override func pump() {
        var items: [Item] = []
        while let number = create() {
            items.append(Item(number: number))
            if sendsAgain(number) { awaitReceipt(number, shape.patience) }
        }
        if !items.isEmpty { send(items) }
    }

    private func awaitReceipt(_ number: Int, _ patience: Duration) {
        scheduler.after(patience, as: Scheduler.world) { [self] in
            guard !isAcked(number) else { return }
            send([Item(number: number)])
            // The more wait, the longer: a slow database must get through what comes.
            let longest = Duration.seconds(20) + .milliseconds(50) * (created - ackedCount)
            awaitReceipt(number, min(patience * 2, longest))
        }
    }

    override func repeatSome(_ count: Int) {
        guard created > 0 else { return }
        send((0..<count).map { _ in Item(number: drawn(), isOther: random.chance(0.1)) })
    }

    /// Hands messages of devices to the session if it is present, or else to the store, which takes a while.
    private func send(_ items: [Item]) {
        for item in items { held[item.number, default: 0] += 1 }
        if let session, session.isPresent { return push(items, to: session) }
        for item in items {
            storing.append(item)
            scheduler.after(random.time(.microseconds(100), .milliseconds(20)), as: Scheduler.world) { [self] in
                if let item = storing.popFirst() { store(item) }
            }
        }
    }

    private func store(_ item: Item) {
        nodes += 1
        stored.append((nodes, item))
    }

    /// A receipt has arrived: a device that sends again is content.
    func received(_ number: Int) { if sendsAgain(number) { acked(number) } }

    /// The server no longer has a copy: the worker answers for it, or else nobody may have it any more.
    private func drop(_ item: Item, isAnswered: Bool) {
        let left = (held[item.number] ?? 1) - 1
        held[item.number] = left > 0 ? left : nil
        guard !sendsAgain(item.number), !isAcked(item.number), isAnswered || left == 0 else { return }
        if !isAnswered {
            judge.note("the server loses \(item.number)")
            gone.insert(item.number)
        }
        acked(item.number)
    }

    // MARK: Sessions

    func bind(_ stream: StandardStream) -> StandardSession {
        if let session { end(session, "conflict") }
        sessions += 1
        let session = StandardSession(sessions, judge: judge)
        session.stream = stream
        self.session = session
        return session
    }

    /// Ends a session: what it keeps is stored, less what its queue had no room for, or returns to its senders.
    private func end(_ session: StandardSession, _ error: String? = nil, returns: Bool = false) {
        if self.session === session { self.session = nil }
        let stream = session.stream.take()
        judge.note("session \(session.id) ends\(error.map { ": " + $0 } ?? "")")
        let kept = returns ? 0 : shape.queue
        for (place, entry) in session.queue.enumerated() {
            guard case .message(let item) = entry else { continue }
            if place < session.queue.count - kept { drop(item, isAnswered: false) } else { store(item) }
        }
        if let error { stream?.fail(error) } else { stream?.link?.serverEnds() }
    }

    /// Sends messages, and keeps them; ejabberd gives up a session that does not answer for so many.
    private func push(_ items: [Item], to session: StandardSession) {
        for item in items { session.append(.message(item)) }
        session.stream?.deliver(items)
        guard session.queue.count > shape.queue else { return }
        judge.note("session \(session.id): \(session.queue.count) stanzas are too many")
        if judgesQueue, session.stream != nil, !session.hasLate {
            judge.fail(.room, "session \(session.id) is present, and \(session.queue.count) stanzas wait for an h")
        }
        if shape.kind == .ejabberd { end(session, "policy-violation", returns: true) }
    }

    func present(_ session: StandardSession, _ isPresent: Bool) {
        guard self.session === session else { return }
        session.isPresent = isPresent
        guard isPresent, !stored.isEmpty else { return }
        let items = stored.map { Item(number: $0.item.number, isOther: $0.item.isOther, isLate: true) }
        stored = []
        session.hasLate = true
        push(items, to: session)
    }

    func confirm(_ session: StandardSession, _ count: Int) {
        for case .message(let item) in session.confirm(count) { drop(item, isAnswered: true) }
    }

    /// The session to go on with; nil if it is gone.
    func resumable(_ id: Int) -> StandardSession? {
        guard let session, session.id == id, session.hold != nil else { return nil }
        guard scheduler.now >= refusesUntil else {
            end(session)
            return nil
        }
        return session
    }

    /// Goes on with a session; false if its queue has overflowed.
    func resume(_ session: StandardSession, on stream: StandardStream, _ count: Int) -> Bool {
        let old = session.stream
        session.stream = stream
        session.hasLate = true
        old?.link?.serverEnds()
        confirm(session, count)
        session.rewind()
        guard session.queue.count > shape.queue else { return true }
        end(session, "resource-constraint")
        return false
    }

    /// Sends once more what is not answered for.
    func sendAgain(_ session: StandardSession) {
        var items: [Item] = []
        for entry in session.queue {
            if case .message(let item) = entry {
                items.append(item)
                continue
            }
            session.stream?.deliver(items)
            session.stream?.say("<presence/>")
            items = []
        }
        session.stream?.deliver(items)
    }

    override func ended(_ stream: ServerStream) {
        remove(stream)
        guard let stream = stream as? StandardStream, let session = stream.session, session.stream === stream else {
            return
        }
        guard let hold = session.hold else { return end(session) }
        session.stream = nil
        // The connection may have broken inside a stanza.
        let isBroken = (stream.link?.unacknowledged ?? 0) > 0 && random.chance(0.7)
        if isBroken, shape.kind == .prosody { session.isDeaf = true }
        judge.note("session \(session.id) is held\(session.isDeaf ? ", and deaf" : "")")
        scheduler.after(hold, as: Scheduler.world) { [self] in
            if self.session === session, session.stream == nil { end(session) }
        }
    }

    // MARK: The offline store (XEP-0013)

    var storedNodes: [Int] { stored.map(\.node) }

    func storedItem(_ node: Int) -> Item? { stored.first { $0.node == node }?.item }

    func removeStored(_ nodes: [Int]) {
        for node in nodes {
            guard let index = stored.firstIndex(where: { $0.node == node }) else { continue }
            drop(stored.remove(at: index).item, isAnswered: true)
        }
    }

    // MARK: Faults

    func refuseResumption(for time: Duration) { refusesUntil = scheduler.now &+ time.nanoseconds }

    /// The server restarts: it keeps its store and, if it ends in order, puts there what its session has.
    override func restart(inOrder: Bool) {
        if let session {
            if inOrder {
                end(session, "system-shutdown")
            } else {
                let stream = session.stream.take()
                self.session = nil
                for case .message(let item) in session.queue { drop(item, isAnswered: false) }
                stream?.link?.cut()
            }
        }
        super.restart(inOrder: inOrder)
    }
}

/// The kinds of servers, as the command line names them.
enum ServerKind: String, CaseIterable {
    case ccs, prosody, ejabberd
}
