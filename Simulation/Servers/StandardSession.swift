import NIOCore

/// A session at a standard server: what it sends until the worker answers for that (XEP-0198), over one connection or,
/// where it is resumed, over several.
final class StandardSession {
    enum Entry {
        case message(StandardAccount.Item)
        /// A message that was asked for by its node, and stays stored.
        case viewed(Int)
        /// An answer, or presence.
        case other
    }

    let id: Int
    private let judge: Judge
    /// Its connection; nil while it waits to be resumed.
    var stream: StandardStream?
    /// How long it is held once that is lost; nil for not at all.
    var hold: Duration?
    var isManaged = false
    /// Whether the worker has asked for that, and counts what it writes.
    var isCounting = false
    var isPresent = false
    /// Whether what was stored, or came while the session had no connection, may still fill the queue.
    var hasLate = false
    /// Whether the server takes all that comes for a part of what a lost connection broke off, as Prosody 0.12 does.
    var isDeaf = false
    /// What was sent and is not answered for, after so many that are.
    private(set) var queue = CircularBuffer<Entry>()
    private var answered = 0
    /// The `h` that the worker has written last.
    private var told = 0
    /// How many of the worker's stanzas have arrived, and how many it has written.
    private(set) var handled = 0
    private var written = 0
    /// Receipts that were written and have not arrived, each with its number among the worker's stanzas.
    private var receipts: [(stanza: Int, message: Int)] = []
    /// Copies for which the worker has written no receipt, by message.
    private var unanswered: [Int: Int] = [:]

    init(_ id: Int, judge: Judge) { (self.id, self.judge) = (id, judge) }

    // MARK: What the worker writes

    func wrote(receiptFor message: Int? = nil, on stream: Int) {
        if isCounting { written += 1 }
        guard let message else { return }
        receipts.append((written, message))
        let left = unanswered[message] ?? 0
        judge.acked(message, on: stream, unanswered: left)
        unanswered[message] = left > 1 ? left - 1 : nil
    }

    /// Judges an `h` as the worker writes it: the server may forget all that it covers.
    func judge(_ count: Int) {
        judge.note("worker → session \(id): h \(count)")
        guard count >= told, count <= answered + queue.count else {
            return judge.fail(.wire, "session \(id): h \(count) after \(told), of \(answered + queue.count) stanzas")
        }
        for number in told..<count {
            guard case .message(let item) = queue[offset: number - answered] else { continue }
            judge.counted(item.number, by: "an h")
        }
        told = count
    }

    // MARK: What arrives

    func arrived() {
        if isManaged { handled += 1 }
        receipts.removeAll { $0.stanza <= handled }
    }

    /// Takes out what an `h` covers.
    func confirm(_ count: Int) -> [Entry] {
        let covered = queue.prefix(max(0, min(count - answered, queue.count)))
        queue.removeFirst(covered.count)
        answered += covered.count
        if queue.isEmpty { hasLate = false }
        return Array(covered)
    }

    /// Goes on after a loss: what has not arrived the worker writes again.
    func rewind() {
        for (_, message) in receipts { unanswered[message, default: 0] += 1 }
        (receipts, written) = ([], handled)
    }

    // MARK: What is sent

    func append(_ entry: Entry) {
        switch entry {
        case .message(let item): unanswered[item.number, default: 0] += 1
        case .viewed(let message): unanswered[message, default: 0] += 1
        case .other: break
        }
        if isManaged { queue.append(entry) }
    }
}
