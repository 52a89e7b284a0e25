import MessageStore
import Querying
import Resources

/// The form that plans a replay; nothing is sent before the plan is confirmed.
enum NewReplayPage {
    static func page(_ request: PageRequest) async throws -> HTML {
        let (services, sight) = (request.services, request.services.sight)
        let handlers = try await services.reader.withConnection { try await HandlerStates($0).list(counted: 1) }
        let form =
            request.mayAct
            ? Self.form(Asked(lenient: request.query.values, sight: sight), handlers.map(\.name), sight)
            : Part.empty("Your role looks and does not act", "Ask somebody with the role operator.")
        let lead: HTML =
            "First a plan: it freezes what the filter selects now and counts it. Nothing is sent until you start it."
        return request.document(
            "Plan a replay",
            .replays,
            """
            <p class="crumb"><a href="/replays">Replays</a> / new</p>
            \(Part.head("Plan a replay", lead))
            <section class="card">\(form)</section>
            """
        )
    }

    private static func form(_ asked: Asked<MessageFilter>, _ handlers: [String], _ sight: Sight) -> HTML {
        """
        <form class="filter" data-action="/api/v1/replays/plan" data-done="Planned" data-steps="plan">
        <h2 class="unseen">Plan</h2>
        \(FilterForm.fields(asked, prefix: "filter.", without: sight.payloads ? [] : ["where"]))
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
}
