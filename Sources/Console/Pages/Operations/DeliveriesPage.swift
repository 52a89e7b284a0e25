import Hummingbird
import MessageStore
import Postgres
import Resources
import Vocabulary

/// Waiting deliveries, their last errors and next attempts.
struct DeliveriesPage: ConsoleRoutes {
    private static let pageSize = 50

    let services: ConsoleServices

    func add(to router: RouterGroup<ConsoleContext>) {
        router.page("deliveries") { [self] request in try await page(request) }
    }

    private func page(_ request: PageRequest) async throws -> HTML {
        let list = try PageList<WaitingFilter, WaitingCursor>(
            request,
            at: "/deliveries",
            sight: services.settings.sight,
            WaitingCursor.init
        )
        let (rows, handlers, now) = try await services.reader.withConnection(.search) { connection in
            let now = try await connection.databaseTime()
            let handlers = try await HandlerStates(connection).list(counted: 10_000)
            guard list.asked.mistakes.isEmpty else { return ([WaitingDelivery](), handlers, now) }
            let rows = try await WaitingDeliveries(connection)
                .list(list.asked.judged(now: now), after: list.cursor, limit: Self.pageSize)
            return (try await rows.shown(to: services.settings.sight, connection), handlers, now)
        }
        let view = View(list: list, handlers: handlers, now: now, mayAct: request.mayAct)
        let lead: HTML = "Deliveries that are not done yet; what is due first comes first."
        return PageShell("Waiting", .deliveries, for: request, refresh: list.cursor == nil ? 10 : nil)
            .document(
                """
                \(Part.head("Waiting deliveries", lead, actions: view.actions))
                <section class="card">\(list.form)</section>
                <section class="card">\(view.tabs)<div id="waiting" data-live>\(list.unreadable ?? view.table(rows))</div>\
                \(list.pager(next: rows.count == Self.pageSize ? rows.last?.cursor : nil))</section>
                """
            )
    }

    private struct View {
        var list: PageList<WaitingFilter, WaitingCursor>
        var handlers: [HandlerState]
        var now: Timestamp
        var mayAct: Bool

        var actions: HTML {
            guard mayAct, let handler = list.asked.filter.handler,
                handlers.contains(where: { $0.name == handler && $0.depth > 0 })
            else { return "" }
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

        var tabs: HTML {
            func tab(_ name: String, _ address: PageAddress, _ count: Int, _ isCurrent: Bool) -> HTML {
                """
                <a href="\(address)"\(HTML.when(isCurrent, " aria-current=\"page\""))>\(name) \
                <span class="count">\(Figures.count(count, limit: 10_000))</span></a>
                """
            }
            let all = tab("All", "/deliveries", handlers.reduce(0) { $0 + $1.depth }, list.asked.filter.handler == nil)
            let each = HTML(handlers) { handler in
                tab(
                    handler.name,
                    PageAddress("/deliveries").query("handler", handler.name),
                    handler.depth,
                    list.asked.filter.handler == handler.name
                )
            }
            return "<div class=\"card-head\"><nav class=\"tabs\" aria-label=\"Handlers\">\(all)\(each)</nav></div>"
        }

        func table(_ rows: [WaitingDelivery]) -> HTML {
            guard !rows.isEmpty else {
                return Part.empty(
                    "Nothing waits",
                    "Every delivery is done, or was given up: see <a href=\"/dead\">dead letters</a>."
                )
            }
            return Part.table(
                "Waiting deliveries",
                rows,
                now: now,
                [
                    "due_at", "handler", "message_key", PageColumn("category", absent: "gone"), "attempts",
                    PageColumn("reason", cell: why), .actions(cell: retry),
                ]
            )
        }

        private func retry(_ row: WaitingDelivery) -> HTML {
            guard mayAct, [.retry, .postponed, .held].contains(row.reason) else { return "" }
            return Act.button(
                "Retry now",
                "/api/v1/deliveries/retry-now",
                done: "Due now",
                fields: [("handler", row.handler), ("message_key", "\(row.messageKey)")]
            )
        }

        private func why(_ row: WaitingDelivery) -> HTML {
            let error: HTML =
                row.error.map { "<span class=\"sub mono\">\(stranger: $0.shortened(200))</span>" } ?? ""
            switch row.reason {
            case .leased: return "\(Part.badge(.active, "in hand"))<span class=\"sub mono\">\(row.leaseOwner)</span>"
            case .paused:
                let reason: HTML = row.pausedReason.map { "<span class=\"sub\">\(stranger: $0)</span>" } ?? ""
                return "\(Part.badge(.warning, "handler paused"))\(reason)"
            case .held:
                let end: HTML = row.heldUntil.map { "until \(Part.age($0, now: now))" } ?? ""
                let reason: HTML = row.heldReason.map { "<span class=\"sub\">\(stranger: $0)</span>" } ?? ""
                return "\(Part.badge(.warning, "held")) \(end)\(reason)"
            case .retry: return "\(Part.badge(.warning, "will be retried"))\(error)"
            case .postponed: return "\(Part.badge(.idle, "postponed"))\(error)"
            case .unclaimed: return Part.badge(.bad, "no worker runs the handler")
            case .due: return Part.badge(.good, "due")
            }
        }
    }
}
