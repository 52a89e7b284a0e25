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
struct ReplayActions: EndpointGroup {
    let services: ConsoleServices

    /// The most replays to handlers that may be planned and not started for another to be planned by HTTP.
    private static let mostPlanned = 100

    private struct Control: ActionBody {
        static let members = [BodyMember.reason, BodyMember("again", #"{"type":"boolean"}"#)]
        var reason: String?
        /// Whether `start` begins again with the first message.
        var again: Bool?
    }

    private static let replay = Parameter.path("id", "The replay's id or name.") { $0 }

    var endpoints: [Endpoint] {
        [
            .post(
                "planReplay",
                "replays/plan",
                "Freezes what a replay to handlers would send; sends nothing.",
                body: ReplayPlanBody.self,
                answers: [
                    .one(ReplayPlan.schema, 200, "There is nothing to send"), .one(ReplayPlan.schema, 201, "The plan"),
                ],
                plan
            ),
            control("startReplay", .start, "Starts a replay, in the workers.", body: Control.self),
            control("pauseReplay", .pause, "Pauses a replay."),
            control("resumeReplay", .resume, "Resumes a replay."),
            control("cancelReplay", .cancel, "Cancels a replay for good."),
        ]
    }

    private func control(
        _ operation: StaticString,
        _ event: ReplayEvent,
        _ summary: StaticString,
        body: any ActionBody.Type = ReasonBody.self
    ) -> Endpoint {
        .post(operation, "replays/{id}/\(event.rawValue)", summary, [Self.replay], body: body) {
            try await control(event, $0)
        }
    }

    private func control(_ event: ReplayEvent, _ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let name = try endpoint[Self.replay]
        let body = try request.decode(Control.self)
        guard event == .start || body.again == nil else { throw Problem.badRequest("'again' goes with start") }
        let author = try request.author(body.reason)
        let chosen = body.again == true ? ReplayEvent.startAgain : event
        let sight = services.settings.sight
        return try await IdempotentActions(services: services).perform(request) { connection throws(PostgresError) in
            guard let replay = try ReplayTable.find(connection, name) else {
                return .failure(.notFound("there is no replay of this name or id: GET replays lists them"))
            }
            if chosen != .pause, chosen != .cancel {
                guard case .handlers = replay.target else {
                    return .failure(
                        Problem(
                            .conflict,
                            "other-target",
                            "Not a replay to handlers",
                            "it is run by the process that sends it: `upstream-worker replay start \(replay.name)`"
                        )
                    )
                }
            }
            switch try ReplayTable.apply(connection, chosen, to: replay.id.description, by: author) {
            case .failure(let error): return .failure(Problem(error))
            case .success(let result):
                return .success(
                    ActionAnswer {
                        result.replay.shown(to: sight).writeMembers(to: &$0)
                        $0.name("changed")
                        $0.bool(result.transition != .stay)
                    }
                )
            }
        }
    }

    // MARK: Planning

    private func plan(_ endpoint: EndpointRequest) async throws -> Response {
        let request = try await ActionRequest(endpoint, services.settings)
        let body = try request.decode(ReplayPlanBody.self)
        let wanted = try body.request(
            by: try request.author(body.reason),
            sight: Sight(tokens: request.principal.may(.reveal), payloads: services.settings.showsPayloads)
        )
        return try await IdempotentActions(services: services).perform(request, isLong: true) {
            connection throws(PostgresError) in
            let planned = try connection.run(ReplayActionStatements.planned(limit: Self.mostPlanned)).value(Int.self)
            guard planned < Self.mostPlanned else { return .failure(Self.tooMany) }
            switch try ReplayPlanner.plan(connection, wanted) {
            case .failure(let error): return .failure(Problem(error))
            case .success(let plan):
                let status: HTTPResponse.Status = plan.id == nil ? .ok : .created
                let location = plan.id.map { "/api/v1/replays/\($0)" }
                return .success(ActionAnswer(status, location: location) { plan.writeMembers(to: &$0) })
            }
        }
    }
}

extension ReplayActions {
    private static let tooMany = Problem(
        .tooManyRequests,
        "too-many-replays",
        "Too many replays are planned",
        "\(mostPlanned) replays to handlers are planned and were never started: cancel one of them, or start it",
        headers: [.retryAfter: "60"]
    )
}

extension Problem {
    init(_ error: ReplayError) {
        switch error.kind {
        case .unknown: self = .notFound(error.message)
        case .refused: self.init(.conflict, "replay-refused", "The replay's state forbids it", error.message)
        case .invalid: self = .badRequest(error.message)
        case .unavailable, .denied:
            self.init(.badGateway, "replay-target", "The target can't be reached", error.message)
        }
    }
}
