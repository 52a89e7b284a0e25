import Hummingbird
import Postgres
import Querying
import UpstreamKit
import Vocabulary

/// `GET quarantine`, `quarantine/{id}`, `conflicts` and `conflicts/{key}`.
struct OddRoutes: ConsoleRoutes {
    let services: ConsoleServices

    init(_ services: ConsoleServices) { self.services = services }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("quarantine", use: quarantine)
        router.get("quarantine/:id", use: stanza)
        router.get("conflicts", use: conflicts)
        router.get("conflicts/:key", use: conflict)
    }

    private func quarantine(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        try context.require(.read)
        let asked = try QuarantineRequest(QueryParameters(request, .init(single: QuarantineRequest.names)))
        let rows = try await services.reader.withConnection(.search) { connection in
            try await asked.judged(connection).rows(connection)
        }
        let next = rows.count < asked.limit ? nil : rows.last.map { String($0.id) }
        let sight = services.settings.sight
        return JSONAnswer.list(rows.map { $0.shown(to: sight) }, next: next) { json, row in
            json.json(row.json(verbatim: false, isForTerminal: false))
        }
    }

    private func stanza(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let reveals = try QueryParameters(request, .init(single: ["reveal"])).reveal()
        if reveals { try context.require(.reveal) }
        let payloads = services.settings.showsPayloads
        guard !reveals || payloads else {
            throw Problem.badRequest("payloads are hidden (console.payloads), so there is no token to reveal")
        }
        guard let id = context.parameters.get("id").flatMap({ Int64($0) }) else {
            throw Problem.badRequest("a quarantined stanza is named by its id, a whole number, as the list gives it")
        }
        var query = QuarantineQuery()
        (query.id, query.limit, query.hasStanzas) = (id, 1, payloads)
        let found = try await services.reader.withConnection { [query] in try await query.rows($0) }.first
        guard let found else {
            throw Problem.notFound("no quarantined stanza has this id; retention may have deleted it")
        }
        if reveals { try await Revealing.record(1, "quarantine \(id)", [], services, principal) }
        let shown = found.shown(to: Sight(tokens: reveals, payloads: payloads))
        return JSONAnswer.of(shown.json(verbatim: reveals, isForTerminal: false))
    }

    private func conflicts(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let names = QueryParameters.Names(
            single: FilterParameters.single + ["limit", "after"],
            repeatable: FilterParameters.repeatable
        )
        let parameters = try QueryParameters(request, names)
        let payloads = services.settings.showsPayloads
        let filter = try FilterParameters(parameters, showsPayloads: payloads, principal)
        let limit = try parameters.integer("limit", in: 1...1_000, or: 50)
        let aliases = services.aliases
        var cursor = try parameters.cursor(ConflictCursor.init)
        if let name = cursor?.fingerprint { cursor?.fingerprint = aliases.fingerprint(of: name) }
        let found = try await services.reader.withConnection(.search) { [cursor] connection in
            let judged = try await filter.judged(connection)
            var query = ConflictQuery(filter: judged, after: cursor, limit: limit)
            query.byteLimit = AnswerBounds.page
            return try await query.page(connection)
        }
        let rows = found.rows.map { aliases.named($0) }
        let next = found.isFull ? rows.last?.namedCursor.description : nil
        return JSONAnswer.list(rows, next: next) { json, row in
            json.json(row.json(tokens: false, payloads: payloads, isForTerminal: false))
        }
    }

    /// The conflicting contents under one key, with the stored message.
    private func conflict(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let reveals = try QueryParameters(request, .init(single: ["reveal"])).reveal()
        if reveals { try context.require(.reveal) }
        guard let key = MessageKey(context.parameters.get("key") ?? "") else {
            throw Problem.badRequest(
                "conflicts are named by the message_key that they share: 8-4-4-4-12 hexadecimal digits"
            )
        }
        let detail = try await services.reader.withConnection { try await ConflictDetail.read(key, $0) }
        guard !detail.conflicts.isEmpty else { throw Problem.notFound("no conflict has this message_key") }
        if reveals {
            try await Revealing.record(detail.conflicts.count, "conflicts of \(key)", [], services, principal)
        }
        let payloads = services.settings.showsPayloads
        return JSONAnswer.object { json in
            json.member("message_key", key.digest)
            json.member("stored", json: detail.storedJSON(tokens: reveals, payloads: payloads))
            json.name("conflicts")
            json.array(detail.conflicts) { json, row in
                let row = services.aliases.named(row)
                json.json(row.json(tokens: reveals, payloads: payloads, isForTerminal: false))
            }
            if detail.hasMoreConflicts { json.member("more_conflicts", is: true) }
        }
    }
}

/// A request's filter of quarantined stanzas.
struct QuarantineRequest: Sendable {
    static let names = ["sender", "reason", "message_id", "since", "until", "limit", "after"]

    private var query = QuarantineQuery()
    private let since, until: String?

    /// The most rows.
    var limit: Int { query.limit }

    init(_ parameters: QueryParameters) throws(Problem) {
        query.senderID = parameters.text("sender")
        query.reason = try parameters.word("reason", QuarantineReason.self)?.rawValue
        query.messageID = parameters.text("message_id")
        query.limit = try parameters.integer("limit", in: 1...1_000, or: 50)
        query.cursor = try parameters.cursor { text in text.utf8.count < 20 ? Int64(text) : nil }
        (since, until) = (parameters.text("since"), parameters.text("until"))
        query = try judged(now: .now)
    }

    /// The query, with ages counted back from the database's clock.
    ///
    /// - Parameter connection: The database.
    /// - Throws: `PostgresError`, and a ``Problem`` if `since` is not before `until`.
    /// - Returns: The query.
    func judged(_ connection: PostgresConnection) async throws -> QuarantineQuery {
        guard since != nil || until != nil else { return query }
        return try judged(now: try await MessageTail.now(connection))
    }

    private func judged(now: Timestamp) throws(Problem) -> QuarantineQuery {
        var query = query
        query.since = try FilterParameters.time(since, "since", now)
        query.until = try FilterParameters.time(until, "until", now)
        if let since = query.since, let until = query.until, since >= until {
            throw .badRequest("'since' must be before 'until'")
        }
        return query
    }
}

struct ConflictDetail: Sendable {
    /// The stored message; nil if it is unknown by now.
    var detail: MessageDetail?
    /// The copies with other content, newest first: a few MiB at most.
    var conflicts: [ConflictRow]
    var hasMoreConflicts: Bool

    static func read(
        _ key: MessageKey,
        _ connection: PostgresConnection
    ) async throws(PostgresError) -> ConflictDetail {
        var filter = MessageFilter()
        filter.messageKey = key
        var query = ConflictQuery(filter: filter, limit: 100)
        query.byteLimit = AnswerBounds.page
        let found = try await query.page(connection)
        let detail = found.rows.isEmpty ? nil : try await MessageLookup(connection).detail(key, conflictBytes: 0)
        return ConflictDetail(detail: detail, conflicts: found.rows, hasMoreConflicts: found.isFull)
    }

    /// The stored message alone; nil if retention deleted it.
    func storedJSON(tokens: Bool, payloads: Bool) -> [UInt8]? {
        detail?.storedJSON(tokens: tokens, payloads: payloads)
    }
}
