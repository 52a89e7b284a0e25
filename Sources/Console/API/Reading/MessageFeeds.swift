import Querying
import Synchronization

/// The feeds: one for all streams without `where`, and one for each filter with it, which only the database can
/// evaluate.
final class MessageFeeds: Sendable {
    /// The most different filters with `where`: each is a query every second.
    static let queryLimit = 8
    /// The most of these that one person may have begun.
    static let queryShare = 4

    private let reader: ConsoleReader
    private let showsPayloads: Bool
    /// Each with the name of who began it.
    private let feeds = Mutex<[(feed: MessageFeed, reader: String)]>([])
    private let places = StreamPlaces(100, "streams of messages", instead: "ask for 'messages' now and then")

    init(_ reader: ConsoleReader, showsPayloads: Bool) { (self.reader, self.showsPayloads) = (reader, showsPayloads) }

    /// The feed of a filter, and a place in it that is given up with its last reference.
    func subscribe(_ filter: MessageFilter) throws(Problem) -> (feed: MessageFeed, place: MessageFeed.Subscription) {
        var wanted = MessageFilter()
        if !filter.clauses.isEmpty {
            wanted = filter
            (wanted.since, wanted.until) = (nil, nil)
        }
        let place = try places.take()
        guard let feed = feed(for: wanted) else {
            let most = "at most \(Self.queryLimit) different filters with 'where' are followed at once"
            throw Problem(
                .tooManyStreams,
                "\(most), \(Self.queryShare) of them yours: end one, or follow without 'where'"
            )
        }
        return (feed, feed.subscribe { withExtendedLifetime(place) {} })
    }

    /// The feed that reads what a filter selects; nil if there are too many.
    private func feed(for wanted: MessageFilter) -> MessageFeed? {
        let (reader, showsPayloads, who) = (reader, showsPayloads, ReadPool.reader)
        return feeds.withLock { feeds in
            if let known = feeds.first(where: { $0.feed.filter == wanted }) { return known.feed }
            feeds.removeAll(where: \.feed.isIdle)
            if !wanted.clauses.isEmpty {
                let queries = feeds.filter { !$0.feed.filter.clauses.isEmpty }
                let isMine = who.isEmpty || queries.count { $0.reader == who } < Self.queryShare
                guard queries.count < Self.queryLimit, isMine else { return nil }
            }
            let made = MessageFeed(wanted, reader: reader, showsPayloads: showsPayloads)
            feeds.append((made, who))
            return made
        }
    }
}
