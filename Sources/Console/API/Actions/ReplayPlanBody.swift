import MessageStore
import Querying
import Replaying
import UpstreamKit
import Vocabulary

/// The body of `POST replays/plan`.
struct ReplayPlanBody: ActionBody {
    static let members: Set = [
        "name", "reason", "handlers", "scope", "include_replayed", "rate", "speed", "concurrency", "filter",
        "filter.category",
        "filter.sender",
        "filter.device", "filter.message_id", "filter.message_key", "filter.since", "filter.until", "filter.where",
    ]

    /// Generated if nil.
    var name: String?
    var reason: String?
    /// These, whatever their subscriptions; nil for the subscribed ones.
    var handlers: [String]?
    /// `not_handled` (the default), `only_failed` or `all`.
    var scope: String?
    /// Whether to include messages that an earlier replay sent to the same handler.
    var includeReplayed: Bool?
    /// The most messages per second.
    var rate: Double?
    /// The factor to the original pacing.
    var speed: Double?
    /// The most deliveries in flight.
    var concurrency: Int?
    var filter: Filter?

    enum CodingKeys: String, CodingKey {
        case name
        case reason
        case handlers
        case scope
        case includeReplayed = "include_replayed"
        case rate
        case speed
        case concurrency
        case filter
    }

    /// A filter with the names of `GET messages`.
    struct Filter: Decodable, Sendable {
        var category: [String]?
        var sender: String?
        var device: String?
        var messageID: String?
        var messageKey: String?
        var since: String?
        var until: String?
        var clauses: [String]?

        enum CodingKeys: String, CodingKey {
            case category
            case sender
            case device
            case messageID = "message_id"
            case messageKey = "message_key"
            case since
            case until
            case clauses = "where"
        }

        /// The values by name.
        fileprivate var texts: [String: [String]] {
            let single = [
                "sender": sender, "device": device, "message_id": messageID, "message_key": messageKey, "since": since,
                "until": until,
            ]
            return single.mapValues { $0.map { [$0] } ?? [] }
                .merging(["category": category ?? [], "where": clauses ?? []]) { first, _ in first }
        }

        /// The store's form.
        ///
        /// - Parameters:
        ///   - now: The moment from which ages such as `2h` count back.
        ///   - showsPayloads: If false, `where` is refused: a plan's counts would reveal payloads.
        ///   - seesTokens: If false, a clause on a registration token is refused, for the same reason.
        /// - Throws: ``Problem``
        /// - Returns: The filter with times.
        func filter(now: Timestamp, showsPayloads: Bool, seesTokens: Bool) throws(Problem) -> MessageFilter {
            guard showsPayloads || (clauses ?? []).isEmpty else { throw .payloadsHidden }
            var filter = MessageFilter()
            filter.seesTokens = seesTokens
            filter.categories = category ?? []
            (filter.senderID, filter.messageID) = (sender, messageID)
            filter.messageKey = try messageKey.map { text throws(Problem) in try .parsed(text) }
            filter.since = try since.map { text throws(Problem) in try .parsed(text, "since", now: now) }
            filter.until = try until.map { text throws(Problem) in try .parsed(text, "until", now: now) }
            if let device {
                guard let key = DeviceKey(device) else {
                    throw .badRequest("'device' is a device_key: 8-4-4-4-12 hex digits, never a token")
                }
                filter.deviceKey = key
            }
            for text in clauses ?? [] {
                do throws(FilterError) {
                    filter.clauses.append(try WhereClause(parsing: text))
                } catch {
                    throw .badRequest("'where': \(error)")
                }
            }
            guard seesTokens || !filter.clauses.contains(where: \.isOnToken) else { throw .clauseOnToken }
            return filter
        }
    }

    /// The request to plan.
    ///
    /// - Parameters:
    ///   - author: Who asks, and why.
    ///   - now: The moment from which ages such as `2h` count back.
    ///   - showsPayloads: Whether the filter may look into payloads.
    ///   - seesTokens: Whether it may look at registration tokens in payloads.
    /// - Throws: ``Problem``
    /// - Returns: The request.
    func request(
        by author: AuditAuthor,
        now: Timestamp,
        showsPayloads: Bool,
        seesTokens: Bool
    ) throws(Problem) -> ReplayRequest {
        let name = name ?? "console-\(UInt32.random(in: 0...UInt32.max))"
        guard ReplayRequest.isName(name) else {
            throw .badRequest("a replay's name is 1-100 letters, digits, '-', '_', '.' or ':'")
        }
        let kinds: [String: ReplayRequest.Scope] = [
            "not_handled": .notHandled, "only_failed": .onlyFailed, "all": .all,
        ]
        guard let scope = kinds[scope ?? "not_handled"] else {
            throw .badRequest("'scope' is not_handled, only_failed or all")
        }
        for (name, value) in [("rate", rate), ("speed", speed)] {
            if let value, !ReplayPace.rates.contains(value) { throw .badRequest("'\(name)' is 0.001 to 1000000000") }
        }
        if let concurrency, !ReplayPace.concurrencies.contains(concurrency) {
            throw .badRequest("'concurrency' is 1 to 100000")
        }
        let texts = (filter?.texts ?? [:]).merging(["handlers": handlers ?? []]) { first, _ in first }
        if let excess = FilterBounds.excess(in: texts) { throw .badRequest(excess) }
        var request = ReplayRequest(
            name: name,
            filter: try (filter ?? Filter())
                .filter(now: now, showsPayloads: showsPayloads, seesTokens: seesTokens),
            target: .handlers(handlers ?? [], scope),
            by: author
        )
        request.includesReplayed = includeReplayed ?? false
        request.pace = ReplayPace(rate: rate, speed: speed, concurrency: concurrency)
        return request
    }
}
