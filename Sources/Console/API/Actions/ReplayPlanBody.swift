import MessageStore
import Querying
import Replaying
import Resources

/// The body of `POST replays/plan`.
struct ReplayPlanBody: ActionBody {
    static let members: [BodyMember] = [
        BodyMember("name", #"{"type":"string","maxLength":100}"#), .reason,
        BodyMember("handlers", #"{"type":"array","items":{"type":"string"},"maxItems":100}"#),
        BodyMember("scope", #"{"enum":["not_handled","only_failed","all"]}"#),
        BodyMember("include_replayed", #"{"type":"boolean"}"#), BodyMember("rate", #"{"type":"number"}"#),
        BodyMember("speed", #"{"type":"number"}"#), BodyMember("concurrency", #"{"type":"integer"}"#),
        BodyMember("filter", BodyMember.fields(of: MessageFilter.self)),
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
    var filter: FilterBody<MessageFilter>?

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

    /// The request to plan.
    ///
    /// - Parameters:
    ///   - author: Who asks, and why.
    ///   - sight: What they may see, and so may look for.
    /// - Throws: ``Problem``
    /// - Returns: The request.
    func request(by author: AuditAuthor, sight: Sight) throws(Problem) -> ReplayRequest {
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
        let filter = filter ?? FilterBody()
        let texts = filter.values.merging(["handlers": handlers ?? []]) { first, _ in first }
        if let excess = FilterBounds.excess(in: texts) { throw .badRequest(excess) }
        var request = ReplayRequest(
            name: name,
            filter: try filter.asked(sight).filter,
            target: .handlers(handlers ?? [], scope),
            by: author
        )
        request.includesReplayed = includeReplayed ?? false
        request.pace = ReplayPace(rate: rate, speed: speed, concurrency: concurrency)
        return request
    }
}
