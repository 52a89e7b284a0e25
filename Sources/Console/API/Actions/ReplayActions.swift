import HTTPTypes
import Hummingbird
import Postgres
import Querying
import Replaying
import Resources
import Vocabulary

/// `POST replays/plan`, and `start`, `pause`, `resume` and `cancel` of a replay.
///
/// Workers run replays to handlers; one to a file or an XMPP endpoint runs in a process of its own, and can only be
/// paused and cancelled here.
enum ReplayActions {
    /// The most replays to handlers that may be planned and not started for another to be planned by HTTP.
    private static let mostPlanned = 100

    private static let replay = Parameter.name("id", "The replay's id or name.")
    /// Whether `start` begins again with the first message.
    private static let again = Member<Bool>("again", #"{"type":"boolean"}"#)

    static let endpoints: [Endpoint] = [
        .action(
            "planReplay",
            "replays/plan",
            "Freezes what a replay to handlers would send; sends nothing.",
            body: ReplayPlanBody.members,
            answers: [
                .one(ReplayPlan.schema, 200, "There is nothing to send"), .one(ReplayPlan.schema, 201, "The plan"),
            ],
            plan
        ),
        control("startReplay", .start, "Starts a replay, in the workers."),
        control("pauseReplay", .pause, "Pauses a replay."),
        control("resumeReplay", .resume, "Resumes a replay."),
        control("cancelReplay", .cancel, "Cancels a replay for good."),
    ]

    private static func control(_ operation: StaticString, _ event: ReplayEvent, _ summary: StaticString) -> Endpoint {
        let (path, body) = ("replays/{id}/\(event.rawValue)", event == .start ? [again] : [])
        return .action(operation, path, summary, [replay], body: body) { request in
            let (name, sight, author) = (try request[replay], request.services.sight, request.author)
            let chosen = request.body[again] == true ? ReplayEvent.startAgain : event
            return try await request.perform { connection throws(PostgresError) in
                guard let replay = try ReplayTable.find(connection, name) else {
                    return .failure(.notFound("there is no replay of this name or id: GET replays lists them"))
                }
                if chosen != .pause, chosen != .cancel, replay.target.kind != "handlers" {
                    let command = "`upstream-worker replay start \(replay.name)`"
                    return .failure(Problem(.otherTarget, "it is run by the process that sends it: \(command)"))
                }
                return try ReplayTable.apply(connection, chosen, to: replay.id.description, by: author)
                    .mapError(Problem.init)
                    .map { result in
                        ActionAnswer {
                            result.replay.shown(to: sight).writeMembers(to: &$0)
                            $0.member("changed", of: result.transition != .stay)
                        }
                    }
            }
        }
    }

    private static func plan(_ request: ActionRequest) async throws -> Response {
        let wanted = try ReplayPlanBody.request(request)
        return try await request.perform(isLong: true) { connection throws(PostgresError) in
            let planned = try connection.run(JobStatements.plannedReplays(limit: mostPlanned)).value(Int.self)
            guard planned < mostPlanned else {
                let why = "\(mostPlanned) replays to handlers are planned and were never started"
                return .failure(Problem(.tooManyReplays, "\(why): cancel one of them, or start it"))
            }
            return try ReplayPlanner.plan(connection, wanted).mapError(Problem.init).map { plan -> ActionAnswer in
                let status: HTTPResponse.Status = plan.id == nil ? .ok : .created
                return ActionAnswer(status, location: plan.id.map { "/api/v1/replays/\($0)" }) {
                    plan.writeMembers(to: &$0)
                }
            }
        }
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

/// The body of `POST replays/plan`.
private enum ReplayPlanBody {
    static let members: [any BodyMember] = [
        name, handlers, scope, includesReplayed, rate, speed, concurrency, filter,
    ]

    /// Generated if nil.
    private static let name = Member<String>("name", #"{"type":"string","maxLength":100}"#)
    /// These, whatever their subscriptions; nil for the subscribed ones.
    private static let handlers = Member<[String]>(
        "handlers",
        #"{"type":"array","items":{"type":"string"},"maxItems":100}"#
    )
    private static let scope = Member<String>("scope", #"{"enum":["not_handled","only_failed","all"]}"#)
    /// Whether to include messages that an earlier replay sent to the same handler.
    private static let includesReplayed = Member<Bool>("include_replayed", #"{"type":"boolean"}"#)
    /// The most messages per second.
    private static let rate = Member<Double>("rate", #"{"type":"number"}"#)
    /// The factor to the original pacing.
    private static let speed = Member<Double>("speed", #"{"type":"number"}"#)
    /// The most deliveries in flight.
    private static let concurrency = Member<Int>("concurrency", #"{"type":"integer"}"#)
    private static let filter = FilterMember<MessageFilter>()

    private static let scopes: [String: ReplayRequest.Scope] = [
        "not_handled": .notHandled, "only_failed": .onlyFailed, "all": .all,
    ]

    /// What is to be planned.
    static func request(_ request: ActionRequest) throws -> ReplayRequest {
        let body = request.body
        let name = body[name] ?? "console-\(UInt32.random(in: 0...UInt32.max))"
        guard ReplayRequest.isName(name) else {
            throw Problem.badRequest("a replay's name is 1-100 letters, digits, '-', '_', '.' or ':'")
        }
        guard let scope = scopes[body[scope] ?? "not_handled"] else {
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
        return wanted
    }
}
