import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// `GET deliveries`, `POST deliveries/retry-now` and `deliveries/cancel`, and their page: waiting deliveries, with errors and
/// next attempts.
enum DeliveryPart {
    static let part = ConsolePart(
        section: Section("Waiting", "/deliveries", "M12 4a8 8 0 1 0 0 16 8 8 0 0 0 0-16zM12 8v4l3 2"),
        endpoints: [
            .list("listDeliveries", list, "Deliveries that wait, with why and when next."),
            .action("retryDeliveriesNow", "deliveries/retry-now", retryNow)
                .about("Makes waiting deliveries due at once.")
                .takes([], body: WaitingFilter.members + [ActionBody.all, limit]),
            .action("cancelDeliveries", "deliveries/cancel", cancel)
                .about("Counts waiting deliveries; with the count's `as_of` makes these dead letters.")
                .takes([], body: WaitingFilter.members + [ActionBody.all, counted]),
        ],
        pages: [Page(path: "deliveries", make: page)]
    )

    private static let list = Listing<WaitingFilter, WaitingDelivery, WaitingCursor>(address: "/deliveries", most: 200)
    { wanted in
        let rows = try await WaitingDeliveries(wanted.connection)
            .list(wanted.filter, after: wanted.after, limit: wanted.limit)
        return .init(try await rows.shown(to: wanted.sight, wanted.connection), wanted.limit) { $0.cursor }
    }

    /// The most deliveries per request, which is one transaction.
    private static let most = BulkAction.Act.waiting(.retryNow, WaitingFilter()).batch
    private static let limit = Member<Int>(
        "limit",
        #"{"type":"integer","minimum":1,"maximum":\#(most),"examples":[100]}"#
    )

    private static func retryNow(_ request: ActionRequest) async throws -> Response {
        let limit = request.body[limit] ?? most
        guard (1...most).contains(limit) else { throw Problem.badRequest("'limit' is 1 to 10,000") }
        let (asked, author) = (try asked(request), request.author)
        return try await request.perform(on: asked) { connection, filter, _ throws(PostgresError) in
            let count = try BulkAction(.waiting(.retryNow, filter), total: limit, by: author).begin(connection)
            // The limit was reached: there may be more.
            var answer: JSONObject = ["done": count, "more": count == limit]
            if count == 0 { answer.add("why", try WaitingDeliveries.whyUnmoved(connection, filter)) }
            return .success(ActionAnswer(answer))
        }
    }

    private static func asked(_ request: ActionRequest) throws -> Asked<WaitingFilter> {
        let asked = try request.body.asked(WaitingFilter.self, request.services.sight)
        guard request.body[ActionBody.all] == true || !asked.isEmpty else {
            throw Problem.badRequest("give a handler, a message_key, another filter, or \"all\": true")
        }
        return asked
    }

    private static let counted = Member<String>(
        "as_of",
        #"{"type":"string","examples":["2026-01-31T12:00:00Z/811:815:811,813"]}"#
    )

    /// Without `as_of` counts; with it gives up what was counted and is as it was then.
    private static func cancel(_ request: ActionRequest) async throws -> Response {
        let (asked, author) = (try asked(request), request.author)
        let count = request.body[counted].flatMap { WaitingCount($0) }
        if count == nil, request.body[counted] != nil {
            throw Problem.badRequest("'as_of' is what the count's answer gives")
        }
        return try await request.perform(isLong: count == nil, on: asked, at: count?.at) {
            connection,
            filter,
            time throws(PostgresError) in
            var chosen = filter
            chosen.until = min(filter.until ?? time, time)
            guard let count else {
                let counts = try WaitingDeliveries.count(connection, chosen, at: time)
                return .success(ActionAnswer(plan(counts, at: time)))
            }
            chosen.count = WaitingCount(at: time, snapshot: count.snapshot)
            let act = BulkAction.Act.waiting(.cancel, chosen)
            let done = try BulkAction(act, total: act.batch, by: author).begin(connection)
            return .success(ActionAnswer(["done": done, "more": done == act.batch, "as_of": "\(count)"] as JSONObject))
        }
    }

    private static func plan(_ counts: WaitingDeliveries.Counts, at time: Timestamp) -> JSONObject {
        let held =
            counts.held > 0 ? "; workers have \(Amount.count(counts.held)) more in hand, which are left alone" : ""
        return [
            "planned": counts.free, "left_with_workers": counts.held,
            "as_of": "\(WaitingCount(at: time, snapshot: counts.snapshot))",
            "about": Amount.counted(counts.free, "waiting delivery", plural: "waiting deliveries") + held,
        ]
    }

    private static func page(_ request: PageRequest) async throws -> HTML {
        let (list, handlers) = try await PageList.read(request, list) { connection, _ in
            try await HandlerStates(connection).list(counted: Overview.countLimit)
        }
        var columns: [PageColumn<WaitingDelivery>] = [
            "due_at", "message_key", PageColumn("category", absent: "gone"), "attempts",
            PageColumn("reason") { why($0, list.now) }, .actions { request.mayAct ? retry($0) : "" },
        ]
        if list.asked.filter.handler == nil { columns.insert("handler", at: 1) }
        let hint: HTML = "Every delivery is done, or was given up: see <a href=\"/dead\">dead letters</a>."
        let filter = list.asked.filter
        return list.document(
            request,
            "Waiting",
            head: "Waiting deliveries",
            "Deliveries that are not done yet; what is due first comes first.",
            actions: request.mayAct ? retryAll(filter, handlers) + cancelThese(list) : "",
            refresh: list.isFirstPage ? 10 : nil,
            """
            \(tabs(handlers, filter.handler))\
            <div id="waiting" data-live>\(list.table("Waiting deliveries", columns, "Nothing waits", hint))</div>
            """
        )
    }

    private static func retryAll(_ filter: WaitingFilter, _ handlers: [HandlerState]) -> HTML {
        guard let handler = filter.handler, handlers.contains(where: { $0.name == handler && $0.depth > 0 }) else {
            return ""
        }
        return Act.dialog(
            "retry-now",
            "Retry all now",
            "/api/v1/deliveries/retry-now",
            done: "Due now",
            isSmall: false,
            fields: [("handler", handler)],
            """
            <p>Every delivery that waits for <strong>\(handler)</strong> becomes due at once, whatever its back-off. The order and the \
            limits of the handler stay.</p>\(Act.reason("retry-now"))
            """
        )
    }

    private static func cancelThese(_ list: PageList<WaitingFilter, WaitingDelivery, WaitingCursor>) -> HTML {
        guard !list.isEmpty, !list.rows.isEmpty else { return "" }
        return Act.dialog(
            "cancel-these",
            "Give up these",
            "/api/v1/deliveries/cancel",
            done: "Given up",
            kind: .danger,
            isSmall: false,
            counted: "Give up",
            fields: WaitingFilter.filters.flatMap { field in list.asked[field].map { (field.name.description, $0) } },
            """
            <p>What the filter selects becomes dead letters of the group <span class="mono">\(WaitingDeliveries.cancelledGroup)</span>, until \
            they are retried or discarded. The messages stay.</p>\(Act.reason("cancel-these"))
            """
        )
    }

    private static func tabs(_ handlers: [HandlerState], _ chosen: String?) -> HTML {
        func tab(_ name: String, _ address: PageAddress, _ count: Int, _ isCurrent: Bool) -> HTML {
            """
            <a href="\(address)"\(HTML.when(isCurrent, " aria-current=\"page\""))>\(name) \
            <span class="count">\(Figures.count(count, limit: Overview.countLimit))</span></a>
            """
        }
        let all = tab("All", "/deliveries", handlers.reduce(0) { $0 + $1.depth }, chosen == nil)
        let each = HTML(handlers) { handler in
            let address = PageAddress("/deliveries").query("handler", handler.name)
            return tab(handler.name, address, handler.depth, chosen == handler.name)
        }
        return "<div class=\"card-head\"><nav class=\"tabs\" aria-label=\"Handlers\">\(all)\(each)</nav></div>"
    }

    private static func retry(_ row: WaitingDelivery) -> HTML {
        guard [.retry, .postponed, .held].contains(row.reason) else { return "" }
        return Act.button(
            "Retry now",
            "/api/v1/deliveries/retry-now",
            done: "Due now",
            fields: [("handler", row.handler), ("message_key", "\(row.messageKey)")]
        )
    }

    private static func why(_ row: WaitingDelivery, _ now: Timestamp) -> HTML {
        func sub(_ text: String?) -> HTML { text.map { "<span class=\"sub\">\(stranger: $0)</span>" } ?? "" }
        let error: HTML = row.error.map { "<span class=\"sub mono\">\(stranger: $0.shortened(100))</span>" } ?? ""
        switch row.reason {
        case .leased: return "\(Part.badge(.active, "in hand"))<span class=\"sub mono\">\(row.leaseOwner)</span>"
        case .paused: return "\(Part.badge(.warning, "handler paused"))\(sub(row.pausedReason))"
        case .held:
            let end: HTML =
                row.heldUntil.map { "a probe is due \(Part.age($0, now: now))" } ?? "\(HandlerBreaker.probeDue)"
            return "\(Part.badge(.warning, "held")) \(end)\(sub(row.heldReason))"
        case .retry: return "\(Part.badge(.warning, "will be retried"))\(error)"
        case .postponed: return "\(Part.badge(.idle, "postponed"))\(error)"
        case .unclaimed: return Part.badge(.bad, "no worker runs the handler")
        case .due: return Part.badge(.good, "due")
        }
    }
}

extension WaitingDelivery: HandlersWords {
    var hasWords: Bool { error != nil }
}
