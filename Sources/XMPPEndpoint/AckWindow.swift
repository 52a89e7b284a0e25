/// The unacked messages of a replay, as a pure value.
///
/// Done is the run of acked messages from the first one on. A continued run resends what was acked beyond it, which the
/// peer recognises as duplicates.
package struct AckWindow: Sendable {
    /// What an ack names: the message's id and its device.
    package struct Key: Hashable, Sendable {
        private var bytes: [UInt8]

        /// The key of a message with this id, from this registration token; both UTF-8.
        package init(id: some Sequence<UInt8>, token: some Sequence<UInt8>) {
            bytes = Array(id)
            bytes.append(0)
            bytes += token
        }
    }

    private enum Entry {
        case waiting(stanza: [UInt8])
        case acked
        case skipped
    }

    private let limit: Int
    private var entries: [Entry] = []
    /// The number of done entries at the front that are not removed yet.
    private var settled = 0
    private var waiting: [Key: [Int64]] = [:]
    /// The position before which all messages are done.
    package private(set) var done: Int64
    package private(set) var inFlight = 0
    package private(set) var skipped: Int64 = 0

    /// Starts at a position, before which messages are done; at most `limit` (above 0) wait for their ack.
    package init(from done: Int64, limit: Int) {
        self.done = done
        self.limit = limit
    }

    /// Whether one more message may be sent; one that is never acked stops sending at last, which bounds memory.
    package var hasRoom: Bool { inFlight < limit && entries.count - settled < 10 * limit }

    package mutating func add(_ key: Key, stanza: [UInt8]) {
        waiting[key, default: []].append(done + Int64(entries.count - settled))
        entries.append(.waiting(stanza: stanza))
        inFlight += 1
    }

    package mutating func skip() {
        entries.append(.skipped)
        advance()
    }

    package mutating func acked(_ key: Key) -> Bool {
        guard var places = waiting[key], let place = places.first else { return false }
        places.removeFirst()
        waiting[key] = places.isEmpty ? nil : places
        entries[settled + Int(place - done)] = .acked
        inFlight -= 1
        advance()
        return true
    }

    /// The unacked stanzas in order: what a new connection sends first.
    package var unacked: [[UInt8]] {
        entries[settled...].compactMap { entry in
            if case .waiting(let stanza) = entry { stanza } else { nil }
        }
    }

    private mutating func advance() {
        while settled < entries.count {
            switch entries[settled] {
            case .waiting: return tidy()
            case .acked: break
            case .skipped: skipped += 1
            }
            settled += 1
            done += 1
        }
        tidy()
    }

    private mutating func tidy() {
        if settled >= 4 * limit || settled == entries.count {
            entries.removeFirst(settled)
            settled = 0
        }
    }
}
