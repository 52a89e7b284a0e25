import HTTPTypes
import Hummingbird
import MessageStore
import NIOCore
import Querying
import Resources
import UpstreamKit

/// `GET messages`, `messages/{key}`, `messages/export` and `messages/stream`.
struct MessageRoutes: ConsoleRoutes {
    let services: ConsoleServices
    let feeds: MessageFeeds
    let exports = StreamPlaces(32, "exports", instead: "wait until one has ended")

    init(_ services: ConsoleServices) {
        self.services = services
        feeds = MessageFeeds(services)
    }

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("messages", use: list)
        router.get("messages/stream", use: stream)
        router.get("messages/export", use: export)
        router.get("messages/:key", use: detail)
    }

    private func list(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let names = QueryParameters.Names(single: MessageRequest.single, repeatable: MessageRequest.repeatable)
        var asked = try MessageRequest(
            QueryParameters(request, names),
            showsPayloads: services.settings.showsPayloads,
            principal
        )
        asked.wantsEstimate = Self.prefersEstimate(request.headers)
        if asked.revealsTokens { try context.require(.reveal) }
        let (keys, filter, hasEstimate, json) = try await services.reader.withConnection(.search) {
            [asked] connection in
            let listing = try await MessageListing.read(asked, connection)
            let json = listing.json(tokens: asked.revealsTokens, payloads: services.settings.showsPayloads)
            let rows = asked.revealsTokens ? 0..<listing.page.count : 0..<0
            let keys = rows.compactMap { listing.page.cursor($0)?.messageKey.description }
            return (keys, listing.filter.auditText, listing.estimate != nil, json)
        }
        if asked.revealsTokens {
            try await Revealing.record(keys.count, "messages" + filter, keys, services, principal)
        }
        return JSONAnswer.of(json, headers: hasEstimate ? [Self.preferenceApplied: "count=estimated"] : [:])
    }

    private func detail(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        let principal = try context.require(.read)
        let reveals = try QueryParameters(request, .init(single: ["reveal"])).reveal()
        if reveals { try context.require(.reveal) }
        guard let key = MessageKey(context.parameters.get("key") ?? "") else {
            throw Problem.badRequest(
                "a message is named by its message_key, 8-4-4-4-12 hexadecimal digits; ?message_id= of the list finds it by id"
            )
        }
        let found = try await services.reader.withConnection { try await MessageLookup($0).detail(key) }
        guard let found else {
            throw Problem.notFound("no message has this key: retention may have dropped it, or it was never stored")
        }
        if reveals { try await Revealing.record(1, "message \(key)", [], services, principal) }
        let payloads = services.settings.showsPayloads
        let shown = found.shown(to: Sight(tokens: reveals, payloads: payloads), by: services.aliases)
        return JSONAnswer.of(shown.json(tokens: reveals, payloads: payloads, isForTerminal: false))
    }

    // MARK: Preferences (RFC 7240)

    private static let prefer = HTTPField.Name("Prefer")
    private static let preferenceApplied = HTTPField.Name("Preference-Applied") ?? .vary

    private static func prefersEstimate(_ headers: HTTPFields) -> Bool {
        guard let prefer else { return false }
        return headers[values: prefer].joined(separator: ",").split(separator: ",").contains { preference in
            let text = preference.filter { $0 != " " && $0 != "\"" && $0 != "\t" }
            return text.lowercased() == "count=estimated"
        }
    }
}
