import Hummingbird
import Querying
import Resources
import UpstreamKit
import Vocabulary

/// `GET quarantine`, `quarantine/{id}`, `conflicts` and `conflicts/{key}`: what was no ordinary message.
enum OddRoutes {
    private static let stanza = Parameter.path(
        "id",
        schema: #"{"type":"integer","format":"int64"}"#,
        "Its id.",
        "the id of a quarantined stanza, a whole number, as the list gives it"
    ) { Int64($0) }
    private static let key = Parameter.uuid("key", "The message_key that they share.")

    static let endpoints: [Endpoint] = [
        .list(
            "listQuarantine",
            Lists.quarantine,
            "Stanzas that were no usable message, without their bytes, the latest first."
        ),
        .get(
            "getStanza",
            "quarantine/{id}",
            "A quarantined stanza as text with its tokens masked.",
            .one(QuarantineRow.schema),
            [stanza, Parameter.reveal]
        ) { request in
            let (id, sight) = (try request[stanza], try request.sight)
            guard !sight.tokens || sight.payloads else {
                throw Problem.badRequest("payloads are hidden (console.payloads), so there is no token to reveal")
            }
            guard let found = try await quarantined(id, request.services) else {
                throw Problem.notFound("no quarantined stanza has this id; retention may have deleted it")
            }
            if sight.tokens { try await request.recordReveal(of: 1, "quarantine \(id)") }
            return .json(found.shown(to: sight).json())
        },
        .list("listConflicts", Lists.conflicts, "Copies of known messages with other content, the latest first."),
        .get(
            "getConflict",
            "conflicts/{key}",
            "The contents that came under one key, beside the stored one.",
            .one("ConflictDetail"),
            [key, Parameter.reveal],
            conflict
        ),
    ]

    /// A stanza with its bytes, unless these are hidden; nil if there is none.
    static func quarantined(_ id: Int64, _ services: ConsoleServices) async throws -> QuarantineRow? {
        var query = QuarantineQuery()
        (query.id, query.limit, query.hasStanzas) = (id, 1, services.sight.payloads)
        return try await services.reader.withConnection { [query] in try await query.rows($0) }.first
    }

    private static func conflict(_ request: EndpointRequest) async throws -> Response {
        let (key, sight, aliases) = (try request[key], try request.sight, request.services.aliases)
        let (found, stored) = try await request.services.reader.withConnection { connection in
            var filter = MessageFilter()
            filter.messageKey = MessageKey(key)
            var query = ConflictQuery(filter: filter, limit: 100)
            query.byteLimit = AnswerBounds.page
            let found = try await query.page(connection)
            guard !found.rows.isEmpty else { throw Problem.notFound("no conflict has this message_key") }
            return (found, try await MessageLookup(connection).detail(MessageKey(key), conflictBytes: 0)?.stored)
        }
        if sight.tokens { try await request.recordReveal(of: found.rows.count, "conflicts of \(key)") }
        return .object { json in
            json.member("message_key", key)
            json.member("stored", of: stored.map { Nested($0.shown(to: sight)) })
            json.member("conflicts", of: Rows(found.rows.map { aliases.named($0).shown(to: sight) }))
            if found.isFull { json.member("more_conflicts", of: true) }
        }
    }
}
