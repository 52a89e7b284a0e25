import Hummingbird
import MessageStore
import Postgres
import Querying
import Vocabulary

/// The form that plans a replay; nothing is sent before the plan is confirmed.
struct NewReplayPage: ConsoleRoutes {
    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("replays/new") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let handlers = try await services.reader.withConnection { try await HandlerStates($0).list(counted: 1) }
        let form: HTML =
            request.mayAct
            ? self.form(request.query, handlers.map(\.name))
            : Part.empty("Your role looks and does not act", "Ask somebody with the role operator.")
        let lead: HTML =
            "First a plan: it freezes what the filter selects now and counts it. Nothing is sent until you start it."
        return PageShell("Plan a replay", .replays, for: request).document(
            """
            <p class="crumb"><a href="/replays">Replays</a> / new</p>
            \(Part.head("Plan a replay", lead))
            <section class="card">\(form)</section>
            """
        )
    }

    private func form(_ query: PageQuery, _ handlers: [String]) -> HTML {
        """
        <form class="filter" data-action="/api/v1/replays/plan" data-done="Planned" data-steps="plan">
        <h2 class="unseen">Plan</h2>
        \(field("filter.category", "Category", query.all("category").first, isList: true))
        \(field("filter.message_id", "Message id", query["message_id"]))
        \(field("filter.message_key", "Message key", query["message_key"]))
        \(field("filter.device", "Device key", query["device"]))
        \(field("filter.sender", "Sender", query["sender"]))
        \(field("filter.since", "Received since", query["since"]))
        \(field("filter.until", "Received before", query["until"]))
        \(HTML.when(services.settings.showsPayloads, field("filter.where", "Where", query.all("where").first, isList: true)))
        \(HTML(query.all("category").dropFirst()) { Self.hidden("filter.category", $0) })
        \(HTML(query.all("where").dropFirst()) { Self.hidden("filter.where", $0) })
        <div><label for="f-scope">Send</label><select id="f-scope" name="scope">
        <option value="not_handled">what a handler has not handled</option><option value="only_failed">only dead letters</option>
        <option value="all">everything, handled or not</option></select></div>
        <div><label for="f-replayed">Replayed before</label><select id="f-replayed" name="include_replayed" data-kind="flag">
        <option value="">leave out</option><option value="yes">send again</option></select></div>
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

    private func field(_ name: StaticString, _ label: String, _ value: String?, isList: Bool = false) -> HTML {
        let name = name.description
        let kind: HTML = isList ? " data-kind=\"list\"" : ""
        return """
            <div><label for="\(name)">\(label)</label><input id="\(name)" name="\(name)" value="\(exact: value ?? "")" dir="auto" \
            autocomplete="off" spellcheck="false"\(kind)></div>
            """
    }

    private static func hidden(_ name: StaticString, _ value: String) -> HTML {
        "<input type=\"hidden\" name=\"\(name.description)\" value=\"\(exact: value)\" data-kind=\"list\">"
    }
}
