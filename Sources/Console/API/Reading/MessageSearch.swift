import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// A search, newest first, for what no index holds: through one piece of time after the other, until the page is full or
/// the time is over.
///
/// What a piece holds is known before the next is looked at, so a search that takes too long shows what it found so far,
/// and can go on.
struct MessageSearch: Sendable {
    /// How long a search goes on before it shows what it has.
    static let budget = Duration.seconds(4)
    /// The length that a piece should take to search.
    private static let pace = Duration.milliseconds(500)
    private static let (shortest, longest) = (Duration.seconds(1), Duration.seconds(30 * 86_400))

    struct Found {
        var messages: [StoredMessage] = []
        /// Where the next page begins; nil behind the last.
        var next: MessageCursor?
        /// How far back it came, if its time was over.
        var searchedTo: Timestamp?
    }

    private var pager: MessagePager
    /// Where the search ends.
    private let floor: Timestamp
    /// The end of the next piece.
    private var end: Timestamp
    private var piece = Duration.seconds(60)
    private let clock: @Sendable () -> ContinuousClock.Instant

    /// A search from the pager's cursor, or the newest message, back to the filter's beginning, or the oldest day.
    init(
        _ pager: MessagePager,
        _ connection: PostgresConnection,
        clock: @escaping @Sendable () -> ContinuousClock.Instant = { .now }
    ) async throws {
        (self.pager, self.clock) = (pager, clock)
        let now = try await connection.databaseTime() + .seconds(86_400)
        let oldest = try await MessageTail.oldest(connection) ?? now
        floor = max(pager.filter.since ?? oldest, oldest)
        end = min(pager.filter.until ?? now, pager.cursor.map { $0.receivedAt + .microseconds(1) } ?? now)
    }

    /// Searches until the page is full, all is searched, or the time is over.
    ///
    /// - Throws: ``PostgresError``: a time-out only if even the shortest piece takes too long and nothing was searched.
    mutating func run(_ connection: PostgresConnection) async throws -> Found {
        var (found, bytes) = (Found(), 0)
        let (start, first) = (clock(), end)
        while found.messages.count < pager.limit, end > floor {
            if clock() - start > Self.budget {
                found.searchedTo = end
                found.next =
                    found.messages.last?.cursor
                    ?? MessageCursor(receivedAt: end, messageKey: MessageKey(Digest128(high: 0, low: 0)))
                return found
            }
            let from = max(floor, end - piece)
            var part = pager
            (part.filter.since, part.filter.until) = (from, end)
            part.limit = pager.limit - found.messages.count
            part.byteLimit = max(1, pager.byteLimit - bytes)
            let began = clock()
            do throws(PostgresError) {
                let page = try await part.next(connection)
                let messages = try page.messages
                found.messages += messages
                bytes += messages.reduce(0) { $0 + ($1.shownData?.count ?? 0) }
                if page.isFull {
                    found.next = page.end
                    return found
                }
                end = from
                let took = max(clock() - began, .milliseconds(1))
                piece = min(Self.longest, took < Self.pace / 2 ? piece * 4 : took > Self.pace * 2 ? piece / 2 : piece)
            } catch {
                guard error.failureClass == .timeout, piece > Self.shortest || end < first else { throw error }
                piece = max(Self.shortest, piece / 8)
            }
        }
        return found
    }
}
