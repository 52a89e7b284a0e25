/// Decides which connections to close when there are too many, or too much is unread.
///
/// A stranger is who has not authenticated yet: few are allowed per address, and never so many that no room is left for
/// the others. The newest connection stays and the one idle longest goes: otherwise idle connections could lock
/// everybody out, since people authenticate on a new one.
struct ConnectionTable: Sendable {
    typealias ID = ObjectIdentifier

    struct Limits: Sendable {
        /// Connections in all.
        var connections = 512
        /// Connections of strangers; the rest is kept for those who have signed in.
        var strangers = 384
        /// Strangers' connections from one address.
        var perAddress = 128
        /// Connections of one principal.
        var perPrincipal = 128
        /// Bytes of answers made and not yet taken, over all connections.
        var unread = 48 << 20
    }

    enum Owner: Hashable {
        /// A stranger, by address.
        case stranger(String)
        /// Somebody who has signed in, by name.
        case principal([UInt8])
        /// A trusted proxy: many people, told apart by their requests.
        case proxy
    }

    private struct Entry {
        var owner: Owner
        /// Requests without an answer.
        var requests = 0
        /// Since when ``requests`` has its value.
        var since: ContinuousClock.Instant
        var unread = 0
        /// Since when the client has taken nothing.
        var unreadSince: ContinuousClock.Instant
    }

    let limits: Limits
    private var entries: [ID: Entry] = [:]
    /// Bytes made and not taken, over all connections.
    private(set) var unread = 0

    init(_ limits: Limits) { self.limits = limits }

    var count: Int { entries.count }

    func isStranger(_ id: ID) -> Bool { entries[id].map { Self.isStranger($0.owner) } ?? false }

    private static func isStranger(_ owner: Owner) -> Bool { if case .stranger = owner { true } else { false } }

    /// Adds a connection and returns the one evicted to make room; itself if none can be.
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

    /// Evicts an idle connection of the owner with most of them if there are too many in all.
    private mutating func room(for id: ID) -> [ID] {
        guard entries.count > limits.connections else { return [] }
        let idle = entries.filter { $0.key != id && $0.value.requests == 0 }
        let most = Self.most(idle.values.map { ($0.owner, 1) })
        return [remove(longestIdle { $0.key != id && $0.value.owner == most && $0.value.requests == 0 } ?? id)]
    }

    /// Assigns a connection to an authenticated principal.
    ///
    /// - Returns: The connection of theirs evicted to make room; nil if they have too many, all in use.
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

    mutating func count(_ id: ID, requests: Int, at now: ContinuousClock.Instant) {
        entries[id]?.requests = requests
        entries[id]?.since = now
    }

    /// Counts bytes of an answer.
    ///
    /// - Returns: The connections evicted because too much is unread: of the owner with the most unread, the one whose
    ///   client has taken nothing for longest.
    mutating func made(_ id: ID, _ bytes: Int, at now: ContinuousClock.Instant) -> [ID] {
        guard let entry = entries[id] else { return [] }
        if entry.unread == 0 { entries[id]?.unreadSince = now }
        entries[id]?.unread += bytes
        unread += bytes
        var gone: [ID] = []
        while unread > limits.unread, let next = mostUnread() { gone.append(remove(next)) }
        return gone
    }

    mutating func took(_ id: ID, _ bytes: Int, at now: ContinuousClock.Instant) {
        guard entries[id] != nil else { return }
        entries[id]?.unread -= bytes
        entries[id]?.unreadSince = now
        unread -= bytes
    }

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

    /// The connection idle for longest; if none is idle, the one busy for longest.
    private func longestIdle(_ isMeant: ((key: ID, value: Entry)) -> Bool) -> ID? {
        entries.filter(isMeant).min { one, other in
            (one.value.requests > 0 ? 1 : 0, one.value.since) < (other.value.requests > 0 ? 1 : 0, other.value.since)
        }?.key
    }

    private static func most(_ counts: [(Owner, Int)]) -> Owner? {
        Dictionary(counts, uniquingKeysWith: +).max { $0.value < $1.value }?.key
    }
}
