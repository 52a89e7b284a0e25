import HTTPTypes
import Hummingbird
import Querying
import Resources
import UpstreamKit

/// `GET find`: leads from the search box to the page of what is looked for.
enum FindPart {
    static let part = ConsolePart(pages: [Page(path: "find", respond: find)])

    private static func find(_ request: PageRequest) async throws -> Response {
        let text = request.query["q"] ?? ""
        do {
            let terms = try SearchTerms(text, of: MessageFilter.self)
            // Values are judged here, where their terms are at hand, as the page of messages judges them.
            try terms.check(as: MessageFilter.self, sight: request.reach)
            return Response(status: .seeOther, headers: [.location: try await address(terms, request).text])
        } catch let mistake as SearchTerms.Mistake {
            return Response(html: page(request, text, mistake))
        }
    }

    private static func address(_ terms: SearchTerms, _ request: PageRequest) async throws -> PageAddress {
        if let handler = terms.handler { return HandlerPart.address(handler) }
        let messages = PageAddress("/messages")
        guard let reference = terms.reference else {
            return MessageFilter.filters.reduce(messages) { $0.query($1.name, terms.values[$1.name.description] ?? []) }
        }
        let isKnown = try await request.read { try await MessageLookup($0).isKnown(reference) }
        guard !isKnown else { return messages.adding(reference) }
        // A key that no message has may be a device's.
        return messages.query(DeviceKey(reference) == nil ? "message_id" : "device", reference)
    }

    private static func page(_ request: PageRequest, _ text: String, _ mistake: SearchTerms.Mistake) -> HTML {
        request.document(
            "Search",
            find: text,
            """
            \(Part.head("Search", "Nothing was looked for: one term can't be read."))
            \(Part.notice(.bad, "<code>\(mistake.term)</code>: <span class=\"why\">\(exact: mistake.text)</span>"))
            """
        )
    }
}
