import HTTPTypes
import Hummingbird
import MessageStore
import Postgres
import Querying
import Replaying
import Resources

/// `POST replays/plan`, and the form that sends it; nothing is sent before the plan is confirmed.
enum ReplayPlanning {
    /// The most replays to handlers that may be planned and not started for another to be planned by HTTP.
    private static let mostPlanned = 100

    static let endpoint = Endpoint.action("planReplay", "replays/plan", plan)
        .about(
            "Freezes what a replay to handlers would send; sends nothing.",
            .one(ReplayPlan.self, 200, "There is nothing to send"),
            .one(ReplayPlan.self, 201, "The plan")
        )
        .takes([], body: members)

    private static let members: [any BodyMember] = [
        name, handlers, scope, includesReplayed, rate, speed, concurrency, filter,
    ]

    /// Generated if nil.
    private static let name = Member<String>("name", #"{"type":"string","maxLength":100,"examples":["friday"]}"#)
    /// These, whatever their subscriptions; nil for the subscribed ones.
    private static let handlers = Member<[String]>(
        "handlers",
        #"{"type":"array","items":{"type":"string"},"maxItems":100,"examples":[["billing"]]}"#
    )
    private static let scope = Member<String>("scope", #"{"enum":["not_handled","only_failed","all"]}"#)
    /// Whether to include messages that an earlier replay sent to the same handler.
    private static let includesReplayed = Member<Bool>("include_replayed", #"{"type":"boolean"}"#)
    /// The most messages per second.
    private static let rate = Member<Double>("rate", #"{"type":"number","examples":[100]}"#)
    /// The factor to the original pacing.
    private static let speed = Member<Double>("speed", #"{"type":"number","examples":[1]}"#)
    /// The most deliveries in flight.
    private static let concurrency = Member<Int>("concurrency", #"{"type":"integer","examples":[1000]}"#)
    private static let filter = FilterMember<MessageFilter>()

    /// What is asked for, whose filter is to be judged by the database's clock.
    private static func wanted(_ request: ActionRequest) throws -> (ReplayRequest, Asked<MessageFilter>) {
        let body = request.body
        let name = body[name] ?? "console-\(UInt32.random(in: 0...UInt32.max))"
        guard ReplayRequest.isName(name) else {
            throw Problem.badRequest("a replay's name is 1-100 letters, digits, '-', '_', '.' or ':'")
        }
        guard let scope = body[scope].map(ReplayRequest.Scope.init(rawValue:)) ?? .notHandled else {
            throw Problem.badRequest("'scope' is not_handled, only_failed or all")
        }
        let pace = ReplayPace(rate: body[rate], speed: body[speed], concurrency: body[concurrency])
        for (name, value) in [("rate", pace.rate), ("speed", pace.speed)] {
            guard value.map(ReplayPace.rates.contains) ?? true else {
                throw Problem.badRequest("'\(name)' is 0.001 to 1000000000")
            }
        }
        guard pace.concurrency.map(ReplayPace.concurrencies.contains) ?? true else {
            throw Problem.badRequest("'concurrency' is 1 to 100000")
        }
        let handlers = body[handlers] ?? []
        let asked = try (body[filter] ?? ActionBody())
            .asked(MessageFilter.self, request.endpoint.reach, and: ["handlers": handlers])
        var wanted = ReplayRequest(
            name: name,
            filter: asked.filter,
            target: .handlers(handlers, scope),
            by: request.author
        )
        wanted.includesReplayed = body[includesReplayed] ?? false
        wanted.pace = pace
        return (wanted, asked)
    }

    private static func plan(_ request: ActionRequest) async throws -> Response {
        let (asked, filter) = try wanted(request)
        return try await request.perform(isLong: true, on: filter) { connection, filter, _ throws(PostgresError) in
            let planned = try connection.run(JobStatements.plannedReplays(limit: mostPlanned)).value(Int.self)
            guard planned < mostPlanned else {
                let why = "\(mostPlanned) replays to handlers are planned and were never started"
                return .failure(Problem(.tooManyReplays, "\(why): cancel one of them, or start it"))
            }
            var wanted = asked
            wanted.filter = filter
            return try ReplayPlanner.plan(connection, wanted).mapError(Problem.init).map { plan -> ActionAnswer in
                let status: HTTPResponse.Status = plan.id == nil ? .ok : .created
                return ActionAnswer(plan, status, location: plan.id.map { "/api/v1/replays/\($0)" })
            }
        }
    }

    // MARK: The page

    static func page(_ request: PageRequest) async throws -> HTML {
        let sight = request.sight
        let handlers = try await request.look { try await HandlerStates($0).list(counted: 1) }
        let form =
            request.mayAct
            ? Self.form(Asked(lenient: request.query.values, sight: sight), request.query, handlers.map(\.name), sight)
            : Part.empty("Your role looks and does not act", "Ask somebody with the role operator.")
        let lead: HTML =
            "First a plan: it freezes what the filter selects now and counts it. Nothing is sent until you start it."
        return request.document(
            "Plan a replay",
            """
            <p class="crumb"><a href="/replays">Replays</a> / new</p>
            \(Part.head("Plan a replay", lead))
            <section class="card">\(form)</section>
            """
        )
    }

    /// An option of the form, chosen where the page's address says so.
    private static func option(_ query: PageQuery, _ name: String, _ value: String, _ title: HTML) -> HTML {
        "<option value=\"\(value)\"\(HTML.when(query[name] == value, " selected"))>\(title)</option>"
    }

    private static func form(
        _ asked: Asked<MessageFilter>,
        _ query: PageQuery,
        _ handlers: [String],
        _ sight: Sight
    ) -> HTML {
        """
        <form class="filter" data-action="/api/v1/replays/plan" data-done="Planned" data-steps="plan">
        <h2 class="unseen">Plan</h2>
        \(FilterForm.fields(asked, prefix: "filter.", without: sight.payloads ? [] : ["where"]))
        <div><label for="f-scope">Send</label><select id="f-scope" name="scope">
        \(option(query, "scope", "not_handled", "what a handler has not handled"))
        \(option(query, "scope", "only_failed", "only dead letters"))
        \(option(query, "scope", "all", "everything, handled or not"))</select></div>
        <div><label for="f-replayed">Replayed before</label><select id="f-replayed" name="include_replayed" data-kind="flag">
        <option value="">leave out</option>\(option(query, "include_replayed", "yes", "send again"))</select></div>
        <div><label for="f-handlers">To</label><select id="f-handlers" name="handlers" data-kind="list">
        <option value="">every subscribed handler</option>\(HTML(handlers) { "<option value=\"\(exact: $0)\">\($0)</option>" })</select></div>
        <div><label for="f-rate">At most per second</label>
        <input id="f-rate" name="rate" data-kind="number" type="number" min="0.001" step="any" placeholder="no limit"></div>
        <div><label for="f-name">Name</label><input id="f-name" name="name" maxlength="100" pattern="[A-Za-z0-9_.:\\-]+" placeholder="made for you"></div>
        <div class="wide">\(Act.reason("f", isRequired: false))</div>
        <div class="actions"><button class="primary needs-script">Plan it</button>
        <span class="unscripted muted">Planning needs JavaScript; or use <code>upstream-worker replay plan</code>.</span></div>
        <div class="outcome whole" role="status" aria-live="polite"></div></form>
        """
    }
}

extension Problem {
    init(_ error: ReplayError) {
        switch error.kind {
        case .unknown: self = .notFound(error.message)
        case .refused: self.init(.replayRefused, error.message)
        case .invalid: self = .badRequest(error.message)
        case .unavailable, .denied: self.init(.replayTarget, error.message)
        }
    }
}
