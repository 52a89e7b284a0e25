import Hummingbird
import MessageStore
import Postgres
import Replaying
import Resources
import Vocabulary

/// `GET dead` and `dead/groups`, `POST dead/retry` and `dead/discard`.
///
/// An action comes first with a filter, which freezes a set and shows it; then with the set's id, which starts a job on
/// exactly that set.
enum DeadPart {
    static let part = ConsolePart(
        section: Section("Dead letters", "/dead", "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5"),
        endpoints: [
            .list("listDeadLetters", list, at: "dead", "Dead letters, the latest first."),
            .list(
                "listDeadGroups",
                groups,
                at: "dead/groups",
                "Dead letters by handler and error group: those of the last hour first, then the largest."
            ),
            change(
                "retryDead",
                "dead/retry",
                "Freezes dead letters, or queues a frozen set again.",
                .retry,
                takes: rate
            ),
            change("discardDead", "dead/discard", "Freezes dead letters, or deletes a frozen set.", .discard),
        ],
        pages: [Page(path: "dead", make: DeadPages.groups), Page(path: "dead/letters", make: DeadPages.letters)]
    )

    private static let id = Member<String>("id", #"{"type":"string","format":"uuid"}"#)
    private static let filter = FilterMember<DeadLetterFilter>()
    private static let rate = Member<Double>("rate", #"{"type":"number","examples":[100]}"#)

    static let list = Listing<DeadLetterFilter, DeadLetter, DeadLetterCursor>(address: "/dead/letters", most: 200) {
        wanted in
        let rows = try await DeadLetters(wanted.connection)
            .list(wanted.filter, after: wanted.after, limit: wanted.limit)
        return .init(try await rows.shown(to: wanted.sight, wanted.connection), wanted.limit) { $0.cursor }
    }

    /// A page begins behind a number of groups: they change places while they grow.
    static let groups = Listing<DeadGroupFilter, DeadLetterGroup, RowPlace>(address: "/dead", most: 500) { wanted in
        let start = Int(clamping: wanted.after?.id ?? 0)
        let most = wanted.filter.text == nil ? start.addingReportingOverflow(wanted.limit).partialValue : .max
        let groups = try await DeadLetters(wanted.connection)
            .summary(wanted.filter, groups: min(max(most, 0), DeadLetters.mostRanked))
        let found = groups.map { $0.shown(to: wanted.sight) }.filter(wanted.filter.finds)
        let rows = Array(found.dropFirst(start).prefix(wanted.limit))
        return .init(rows: rows, next: rows.count < wanted.limit ? nil : "\(start + rows.count)")
    }

    // MARK: Actions

    private static func change(
        _ operation: StaticString,
        _ path: String,
        _ summary: StaticString,
        _ fate: DeadLetters.Fate,
        takes members: any BodyMember...
    ) -> Endpoint {
        .action(operation, path) { request in
            guard let id = request.body[id] else { return try await freeze(fate, request) }
            return try await start(fate, id, request)
        }
        .about(
            summary,
            .one(named: "Outcome", "There is nothing to act on"),
            .one(Job.self, 201, "The frozen set"),
            .one(Job.self, 202, "The job that was started")
        )
        .takes([], body: [id, ActionBody.all, filter] + members)
    }

    private static func start(
        _ fate: DeadLetters.Fate,
        _ id: String,
        _ request: ActionRequest
    ) async throws -> Response {
        guard request.body[filter] == nil, request.body[ActionBody.all] == nil else {
            throw Problem.badRequest("give either 'filter', to see what it selects, or the 'id' of a set, to act on it")
        }
        guard let job = Digest128(uuid: id.utf8) else { throw Problem.badRequest("'id' is a UUID") }
        let rate = request.body[rate]
        guard rate.map(ReplayPace.rates.contains) ?? true else {
            throw Problem.badRequest("'rate' is 0.001 to 1000000000")
        }
        let (author, sight) = (request.author, request.services.sight)
        let response = try await request.perform { connection throws(PostgresError) in
            try Jobs.start(connection, job, fate, rate: rate.map(RetryRate.init), by: author).map {
                $0.answer(.accepted, to: sight)
            }
        }
        request.services.bell.continuation.yield()
        return response
    }

    private static func freeze(_ fate: DeadLetters.Fate, _ request: ActionRequest) async throws -> Response {
        guard request.body[ActionBody.reason] == nil, request.body[rate] == nil else {
            throw Problem.badRequest("'reason' and 'rate' go with the 'id' of the set, when it is acted on")
        }
        let sight = request.services.sight
        let asked = try (request.body[filter] ?? ActionBody()).asked(DeadLetterFilter.self, sight)
        guard request.body[ActionBody.all] == true || !asked.isEmpty else {
            throw Problem.badRequest("give a filter, or \"all\": true to select every dead letter")
        }
        let who = request.principal.name
        return try await request.perform(isLong: true, on: asked) { connection, filter, _ throws(PostgresError) in
            try Jobs.freeze(connection, fate, filter, who: who).map { job in
                if let job { return job.answer(.created, to: sight) }
                let none: JSONObject = [
                    "id": String?.none, "action": fate.action.rawValue, "planned": 0, "groups": [String](),
                ]
                return ActionAnswer(none)
            }
        }
    }
}

extension DeadLetter: HandlersWords {
    var hasWords: Bool { !error.isEmpty }
}
