import Hummingbird
import Postgres
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// `GET quarantine`, `quarantine/{id}`, `conflicts` and `conflicts/{key}`: what was no ordinary message.
struct OddRoutes: EndpointGroup {
    private static let limit = Parameter.limit(1_000)
    private static let afterStanza = Parameter.after { text in text.utf8.count < 20 ? Int64(text) : nil }
    private static let afterConflict = Parameter.after(ConflictCursor.init)
    private static let stanza = Parameter.path(
        "id",
        schema: #"{"type":"integer","format":"int64"}"#,
        "Its id.",
        "the id of a quarantined stanza, a whole number, as the list gives it"
    ) { Int64($0) }
    private static let key = Parameter.uuid("key", "The message_key that they share.") { MessageKey($0) }

    let services: ConsoleServices

    var endpoints: [Endpoint] {
        [
            .get(
                "listQuarantine",
                "quarantine",
                "Stanzas that were no usable message, without their bytes, the latest first.",
                QuarantineQuery.parameters + [Self.limit, Self.afterStanza],
                .page(of: QuarantineRow.schema),
                quarantine
            ),
            .get(
                "getStanza",
                "quarantine/{id}",
                "A quarantined stanza as text with its tokens masked.",
                [Self.stanza, Parameter.reveal],
                .one(QuarantineRow.schema),
                stanza
            ),
            .get(
                "listConflicts",
                "conflicts",
                "Copies of known messages with other content, the latest first.",
                MessageFilter.parameters + [Self.limit, Self.afterConflict],
                .page(of: "Conflict"),
                conflicts
            ),
            .get(
                "getConflict",
                "conflicts/{key}",
                "The contents that came under one key, beside the stored one.",
                [Self.key, Parameter.reveal],
                .one("ConflictDetail"),
                conflict
            ),
        ]
    }

    private func quarantine(_ request: EndpointRequest) async throws -> Response {
        let sight = services.settings.sight
        let asked = try request.filter(QuarantineQuery.self, showsPayloads: sight.payloads)
        let (limit, cursor) = (try request[Self.limit], try request[Self.afterStanza])
        let rows = try await services.reader.withConnection(.search) { connection in
            var query = try await asked.judged(connection)
            (query.limit, query.cursor) = (limit, cursor)
            return try await query.rows(connection)
        }
        let next = rows.count < limit ? nil : rows.last.map { String($0.id) }
        return JSONAnswer.page(rows.map { $0.shown(to: sight) }, next: next)
    }

    private func stanza(_ request: EndpointRequest) async throws -> Response {
        let (id, reveals, payloads) = (
            try request[Self.stanza], try request[.reveal] != nil, services.settings.showsPayloads
        )
        guard !reveals || payloads else {
            throw Problem.badRequest("payloads are hidden (console.payloads), so there is no token to reveal")
        }
        var query = QuarantineQuery()
        (query.id, query.limit, query.hasStanzas) = (id, 1, payloads)
        let found = try await services.reader.withConnection { [query] in try await query.rows($0) }.first
        guard let found else {
            throw Problem.notFound("no quarantined stanza has this id; retention may have deleted it")
        }
        if reveals { try await Revealing.record(1, "quarantine \(id)", [], services, request.principal) }
        return JSONAnswer.of(found.shown(to: Sight(tokens: reveals, payloads: payloads)).json())
    }

    private func conflicts(_ request: EndpointRequest) async throws -> Response {
        let aliases = services.aliases
        let asked = try request.filter(MessageFilter.self, showsPayloads: services.settings.showsPayloads)
        let limit = try request[Self.limit]
        var cursor = try request[Self.afterConflict]
        if let name = cursor?.fingerprint { cursor?.fingerprint = aliases.fingerprint(of: name) }
        let found = try await services.reader.withConnection(.search) { [cursor] connection in
            var query = ConflictQuery(filter: try await asked.judged(connection), after: cursor, limit: limit)
            query.byteLimit = AnswerBounds.page
            return try await query.page(connection)
        }
        let rows = found.rows.map { aliases.named($0).shown(to: services.settings.sight) }
        return JSONAnswer.page(rows, next: found.isFull ? rows.last?.namedCursor.description : nil)
    }

    /// The contents that came under one key, beside the stored message.
    private func conflict(_ request: EndpointRequest) async throws -> Response {
        let (key, reveals) = (try request[Self.key], try request[.reveal] != nil)
        let detail = try await services.reader.withConnection { try await ConflictDetail.read(key, $0) }
        guard !detail.conflicts.isEmpty else { throw Problem.notFound("no conflict has this message_key") }
        if reveals {
            let count = detail.conflicts.count
            try await Revealing.record(count, "conflicts of \(key)", [], services, request.principal)
        }
        let sight = Sight(tokens: reveals, payloads: services.settings.showsPayloads)
        return JSONAnswer.object { json in
            json.member("message_key", key.digest)
            json.member("stored", of: detail.stored.map { Nested($0.shown(to: sight)) })
            json.member("conflicts", of: Rows(detail.conflicts.map { services.aliases.named($0).shown(to: sight) }))
            if detail.hasMoreConflicts { json.member("more_conflicts", of: true) }
        }
    }
}

/// What came under one message's key.
struct ConflictDetail: Sendable {
    /// The stored message; nil if it is unknown by now, or retention deleted it.
    var stored: StoredMessage?
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
        return ConflictDetail(stored: detail?.stored, conflicts: found.rows, hasMoreConflicts: found.isFull)
    }
}
