import HTTPTypes
import Querying
import Synchronization

/// The feeds that there are: one for all streams without `where`, and one for each filter with it, which only the database
/// can judge.
final class MessageFeeds: Sendable {
    /// The most streams at once.
    static let streamLimit = 100
    /// The most different filters with `where` at once: each is a query of its own, every second.
    static let queryLimit = 8

    private let reader: ReadPool
    private let showsPayloads: Bool
    private let state = Mutex(State())

    private struct State {
        var feeds: [MessageFeed] = []
        var streams = 0
    }

    init(_ services: ConsoleServices) {
        (reader, showsPayloads) = (services.reader, services.settings.showsPayloads)
    }

    /// Begins a stream over the feed of a filter.
    ///
    /// - Parameter filter: Which messages.
    /// - Throws: A ``Problem`` with status 503 where there are too many already.
    /// - Returns: The feed, and a place in it, which is given up when the value goes.
    func subscribe(_ filter: MessageFilter) throws(Problem) -> (feed: MessageFeed, place: MessageFeed.Subscription) {
        var wanted = MessageFilter()
        if !filter.clauses.isEmpty {
            wanted = filter
            (wanted.since, wanted.until) = (nil, nil)
        }
        guard let feed = feed(for: wanted) else {
            throw Problem(
                .serviceUnavailable,
                "too-many-streams",
                "Too many streams",
                "at most \(Self.streamLimit) streams run at once, and \(Self.queryLimit) different filters with 'where': "
                    + "end one, or follow without 'where'",
                headers: [.retryAfter: "10"]
            )
        }
        return (feed, feed.subscribe { self.release() })
    }

    /// The feed that reads what a filter selects, with a stream more; nil where there are too many.
    private func feed(for wanted: MessageFilter) -> MessageFeed? {
        let (reader, showsPayloads) = (reader, showsPayloads)
        return state.withLock { state in
            guard state.streams < Self.streamLimit else { return nil }
            var feed = state.feeds.first { $0.filter == wanted }
            if feed == nil {
                state.feeds.removeAll(where: \.isIdle)
                guard
                    wanted.clauses.isEmpty || state.feeds.count(where: { !$0.filter.clauses.isEmpty }) < Self.queryLimit
                else { return nil }
                let made = MessageFeed(wanted, reader: reader, showsPayloads: showsPayloads)
                state.feeds.append(made)
                feed = made
            }
            state.streams += 1
            return feed
        }
    }

    private func release() {
        state.withLock { $0.streams -= 1 }
    }
}
