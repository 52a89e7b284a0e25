package import Vocabulary

/// A walk through an archive to its end, page by page, as a pure value: what to ask for, and what to save.
///
/// It gets no further than what has been committed, never in a circle without end, and not back: an archive that repeats
/// itself, or sends more than was asked for, ends it.
package struct ArchiveWalk: Sendable {
    package enum Step: Sendable, Equatable {
        /// Save this place; if that is not the end, ask for the next page.
        case save(ArchivePoint, end: ArchiveEnd?)
        /// Ask again: the archive has lost the place.
        case again
        /// Ask for the archive's end, to see whether it knows the place.
        case check
        case fail(Failure)
    }

    package enum Failure: Sendable, Equatable {
        case refused(StanzaErrorCondition)
        /// More results than were asked for.
        case overfull
        /// The page after a message ends with that message, or names no last one.
        case stuck

        package var description: String {
            switch self {
            case .refused(let condition): condition.rawValue
            case .overfull: "more results than asked for"
            case .stuck: "the same page again"
            }
        }
    }

    /// The most pages of a walk.
    package static let pageLimit = 50_000
    /// A short page that takes longer is as slow as a long one: a server may read all of an archive for each.
    static let slowPage = Duration.milliseconds(50)

    /// The page to ask for.
    package private(set) var request: ArchiveRequest
    /// The results so far.
    package private(set) var results = 0
    private var pages = 0
    /// The request that nothing followed, while the archive's end is asked for.
    private var doubted: ArchiveRequest?

    package init(_ request: ArchiveRequest) { self.request = request }

    /// Handles the answer to ``request``, whose results are committed; `took` is the page's time, after which the size of
    /// the next one goes if it is given.
    package mutating func answered(_ answer: ArchiveAnswer, took: Duration? = nil) -> Step {
        switch (answer, request) {
        case (.page(_, let last, _), .end):
            guard case .after(var place, let until, let most)? = doubted.take() else {
                return .save(last, end: .complete)
            }
            // ejabberd compares ids: after one of another server, or of nobody, there may be nothing, for ever.
            guard let id = last.id, id != place.id, place.time != nil else { return .save(place, end: .complete) }
            place.id = nil
            request = .after(place, until: until, most: most)
            return .again
        // The message is no longer there: the time at which it was stored is a place as well.
        case (.refused(.itemNotFound), .after(var point, let until, let most))
        where point.id != nil && point.time != nil:
            point.id = nil
            request = .after(point, until: until, most: most)
            return .again
        case (.refused(let condition), _): return .fail(.refused(condition))
        case (.page(let count, let last, let isComplete), .after(let point, let until, let most)):
            guard count <= most else { return .fail(.overfull) }
            results += count
            if pages == 0, count == 0, last.id == nil, point.id != nil {
                (doubted, request) = (request, .end)
                return .check
            }
            pages += 1
            let next = ArchivePoint(id: last.id ?? point.id, time: last.time ?? point.time)
            // A full page may be the last; a server that says so of each must not have us read one an hour.
            if isComplete, count < most || last.id == nil { return .save(next, end: .complete) }
            // Results that can't be read are not counted, and anybody can write a page of such messages.
            guard let id = last.id, id != point.id else {
                return count == 0 ? .save(next, end: .complete) : .fail(.stuck)
            }
            let size = took.map { $0 > Self.slowPage ? ArchiveRequest.size : ArchiveRequest.shortSize } ?? most
            request = .after(next, until: until, most: size)
            return .save(next, end: pages < ArchiveWalk.pageLimit ? nil : .interrupted)
        }
    }
}
