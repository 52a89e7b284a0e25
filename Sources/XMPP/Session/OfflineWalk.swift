/// A walk through an offline store, as a pure value: what to ask for.
///
/// Each page is removed once it is committed. A message that did not come, because it can't be read, stays stored: our
/// presence brings it. ejabberd finds a message in Mnesia by reading all (900 take seconds, 12,000 a quarter of an hour), so of a
/// long store only as much is read as the session's queue can't hold; that much however long it takes, and however fast the
/// store grows meanwhile, since the server would return all of it.
package struct OfflineWalk: Sendable {
    package enum Step: Sendable, Equatable {
        /// Ask for ``OfflineWalk/request``.
        case ask
        case done
        /// The server has no flexible retrieval.
        case notOffered
        /// The store is longer than a list may be.
        case tooLong
        /// The store is longer than the queue, and pages bring nothing of it.
        case stuck
        case refused(StanzaErrorCondition)
    }

    /// A store of so many is always read, since a server may lose what comes while our presence empties it.
    static let short = 500
    /// How servers that have no flexible retrieval answer.
    private static let denials: [StanzaErrorCondition] = [
        .featureNotImplemented, .serviceUnavailable, .itemNotFound, .notAllowed, .forbidden, .badRequest,
    ]
    /// How many pages in a row may leave a store no shorter than it was, or bring nothing of a long one: devices send in
    /// bursts.
    static let patience = 10

    package private(set) var request = OfflineRequest.count
    /// The messages removed so far.
    package private(set) var removed = 0
    /// How many come with our presence without harm.
    private let harmless: Int
    private var waiting: ArraySlice<String> = []
    /// The nodes that were asked for, of those that were listed last: what did not come is not asked for again.
    private(set) var tried: Set<String> = []
    /// How many there were when they were counted last.
    private var count = 0
    /// The fewest that were counted, and how many had been removed by the last count.
    private var (least, progress) = (Int.max, -1)
    private var stalls = 0

    /// A walk before a session for which the server keeps so many unacknowledged messages.
    package init(queue: Int) { harmless = queue / 2 }

    /// Handles the answer to ``request``; what came with it is committed.
    package mutating func answered(_ answer: OfflineAnswer) -> Step {
        switch (request, answer) {
        case (.count, .count(let count)): return counted(count)
        case (.count, .refused(let condition)) where progress < 0 && Self.denials.contains(condition):
            return .notOffered
        case (.list, .list(let nodes)):
            tried.formIntersection(nodes)
            waiting = nodes.filter { !tried.contains($0) }[...]
            return waiting.isEmpty ? .done : view()
        case (.view(let nodes), .viewed(let viewed)):
            tried.formUnion(nodes)
            request = viewed.isEmpty ? .count : .remove(viewed)
            return .ask
        // Another worker has taken them.
        case (.view(let nodes), .refused(.itemNotFound)):
            tried.formUnion(nodes)
            request = .count
            return .ask
        case (.remove(let nodes), .removed), (.remove(let nodes), .refused(.itemNotFound)):
            removed += nodes.count
            request = .count
            return .ask
        case (.list, .refused(.resourceConstraint)): return .tooLong
        case (_, .refused(let condition)): return .refused(condition)
        default: return .refused(.undefinedCondition)
        }
    }

    private mutating func counted(_ count: Int) -> Step {
        let isLong = count > harmless
        stalls = count < least || (isLong && removed > progress) ? 0 : stalls + 1
        (self.count, least, progress) = (count, min(count, least), removed)
        guard count > 0, count <= OfflineWalk.short || isLong else { return .done }
        guard stalls < OfflineWalk.patience else { return isLong ? .stuck : .done }
        guard waiting.isEmpty else { return view() }
        guard count <= OfflineRequest.listLimit else { return .tooLong }
        request = .list
        return .ask
    }

    private mutating func view() -> Step {
        let size = OfflineRequest.size(of: count)
        request = .view(Array(waiting.prefix(size)))
        waiting = waiting.dropFirst(size)
        return .ask
    }
}
