/// Which connections there are, and which must go when somebody has too many or leaves too much unread.
///
/// A stranger is who has not proven yet who they are: few of them from one address, and never so many that there is no room
/// for those who do. Who comes last stays, and whoever has been idle longest goes: otherwise idle connections could lock
/// everybody out, who can only prove themselves on a new one.
struct ConnectionTable: Sendable {
    /// Names a connection.
    typealias ID = ObjectIdentifier

    /// How much there may be.
    struct Limits: Sendable {
        /// Connections in all.
        var connections = 512
        /// Connections of strangers in all; the rest is kept for those who have signed in.
        var strangers = 384
        /// Strangers' connections from one address.
        var perAddress = 128
        /// Connections of one who has signed in.
        var perPrincipal = 128
        /// Bytes of answers that were made and not taken yet, over all connections.
        var unread = 48 << 20
    }

    /// Whose a connection is.
    enum Owner: Hashable {
        /// A stranger's, by address.
        case stranger(String)
        /// Somebody's who has signed in, by name.
        case principal([UInt8])
        /// A trusted proxy's: of many people, who are told apart by their requests.
        case proxy
    }

    private struct Entry {
        var owner: Owner
        /// Requests without an answer.
        var requests = 0
        /// Since when the number of requests is what it is.
        var since: ContinuousClock.Instant
        var unread = 0
        /// Since when the client has taken nothing.
        var unreadSince: ContinuousClock.Instant
    }

    let limits: Limits
    private var entries: [ID: Entry] = [:]
    /// Bytes that were made and not taken, of all connections.
    private(set) var unread = 0

    init(_ limits: Limits) { self.limits = limits }

    /// How many connections there are.
    var count: Int { entries.count }

    /// Whether a connection is a stranger's.
    func isStranger(_ id: ID) -> Bool { entries[id].map { Self.isStranger($0.owner) } ?? false }

    private static func isStranger(_ owner: Owner) -> Bool { if case .stranger = owner { true } else { false } }

    /// A connection was opened.
    ///
    /// - Returns: Which must go for it; itself where none can.
    mutating func open(_ id: ID, _ owner: Owner, at now: ContinuousClock.Instant) -> [ID] {
        entries[id] = Entry(owner: owner, since: now, unreadSince: now)
        guard Self.isStranger(owner) else { return room(for: id) }
        if entries.values.count(where: { $0.owner == owner }) > limits.perAddress {
            return longestIdle { $0.key != id && $0.value.owner == owner }.map { [remove($0)] } ?? []
        }
        let others = entries.filter { $0.key != id && Self.isStranger($0.value.owner) }
        guard others.count >= limits.strangers else { return room(for: id) }
        let most = Self.most(others.values.map { ($0.owner, 1) })
        return longestIdle { $0.key != id && $0.value.owner == most }.map { [remove($0)] } ?? [remove(id)]
    }

    /// Where there are too many in all, one that does nothing goes, of whoever has most.
    private mutating func room(for id: ID) -> [ID] {
        guard entries.count > limits.connections else { return [] }
        let idle = entries.filter { $0.key != id && $0.value.requests == 0 }
        let most = Self.most(idle.values.map { ($0.owner, 1) })
        return [remove(longestIdle { $0.key != id && $0.value.owner == most && $0.value.requests == 0 } ?? id)]
    }

    /// Who sent the request on a connection was found out.
    ///
    /// - Returns: Which of theirs must go for it; nil where they have too many, all of them in use.
    mutating func identify(_ id: ID, _ name: [UInt8]) -> [ID]? {
        guard let entry = entries[id], entry.owner != .proxy, entry.owner != .principal(name) else { return [] }
        let owner = Owner.principal(name)
        if entries.values.count(where: { $0.owner == owner }) >= limits.perPrincipal {
            guard let idle = longestIdle({ $0.value.owner == owner && $0.value.requests == 0 }) else { return nil }
            entries[id]?.owner = owner
            return [remove(idle)]
        }
        entries[id]?.owner = owner
        return []
    }

    /// A request came, or was answered.
    mutating func count(_ id: ID, requests: Int, at now: ContinuousClock.Instant) {
        entries[id]?.requests = requests
        entries[id]?.since = now
    }

    /// Bytes of an answer were made.
    ///
    /// - Returns: Which must go, because too much is unread in all: of whoever leaves most, the one that has taken nothing for
    ///   the longest time.
    mutating func made(_ id: ID, _ bytes: Int, at now: ContinuousClock.Instant) -> [ID] {
        guard let entry = entries[id] else { return [] }
        if entry.unread == 0 { entries[id]?.unreadSince = now }
        entries[id]?.unread += bytes
        unread += bytes
        var gone: [ID] = []
        while unread > limits.unread, let next = mostUnread() { gone.append(remove(next)) }
        return gone
    }

    /// A client has taken bytes.
    mutating func took(_ id: ID, _ bytes: Int, at now: ContinuousClock.Instant) {
        guard entries[id] != nil else { return }
        entries[id]?.unread -= bytes
        entries[id]?.unreadSince = now
        unread -= bytes
    }

    /// A connection has ended.
    mutating func close(_ id: ID) { if entries[id] != nil { _ = remove(id) } }

    private mutating func remove(_ id: ID) -> ID {
        unread -= entries.removeValue(forKey: id)?.unread ?? 0
        return id
    }

    private func mostUnread() -> ID? {
        let waiting = entries.filter { $0.value.unread > 0 }
        let most = Self.most(waiting.values.map { ($0.owner, $0.unread) })
        return waiting.filter { $0.value.owner == most }.min { $0.value.unreadSince < $1.value.unreadSince }?.key
    }

    /// Of some connections, one that has nothing to do for the longest time; else the one that is at it for the longest.
    private func longestIdle(_ isMeant: ((key: ID, value: Entry)) -> Bool) -> ID? {
        entries.filter(isMeant).min { one, other in
            (one.value.requests > 0 ? 1 : 0, one.value.since) < (other.value.requests > 0 ? 1 : 0, other.value.since)
        }?.key
    }

    private static func most(_ counts: [(Owner, Int)]) -> Owner? {
        Dictionary(counts, uniquingKeysWith: +).max { $0.value < $1.value }?.key
    }
}
