import Hummingbird

/// A page of the console.
struct Page: Sendable {
    let path: String
    let right: ConsoleRight
    /// Makes the document.
    let make: @Sendable (PageRequest) async throws -> HTML

    init(
        _ path: String,
        right: ConsoleRight = .read,
        _ make: @escaping @Sendable (PageRequest) async throws -> HTML
    ) {
        (self.path, self.right, self.make) = (path, right, make)
    }

    static let all = [
        Page("/", OverviewPage.page), Page("messages", MessageListPage.page),
        Page("messages/:reference", MessageDetailPage.page), Page("handlers", HandlersPage.page),
        Page("deliveries", DeliveriesPage.page), Page("dead", DeadPage.page),
        Page("quarantine", QuarantinePage.list), Page("quarantine/:id", QuarantinePage.detail),
        Page("conflicts", ConflictsPage.list), Page("conflicts/:key/:fingerprint", ConflictsPage.compare),
        Page("replays", ReplaysPage.list), Page("replays/new", NewReplayPage.page),
        Page("replays/:id", ReplaysPage.detail), Page("retention", RetentionPage.page),
        Page("audit", right: .audit, AuditPage.page),
    ]

    func add(to router: RouterGroup<ConsoleContext>, _ services: ConsoleServices) {
        router.get(RouterPath(path)) { request, context in
            let principal = try context.require(right)
            let page = PageRequest(
                query: try PageQuery(request.uri.query ?? ""),
                context: context,
                principal: principal,
                services: services,
                hasSession: SessionCookie.id(in: request, isSecure: context.isSecure) != nil
            )
            return Response(html: try await make(page))
        }
    }
}

struct PageRequest: Sendable {
    let query: PageQuery
    let context: ConsoleContext
    /// The reader.
    let principal: Principal
    let services: ConsoleServices
    /// Whether they signed in on the sign-in page.
    let hasSession: Bool

    /// A part of the path.
    func part(_ name: String) -> String { (try? context.pathPart(name)) ?? "" }

    /// Whether the reader may act; otherwise no buttons are shown.
    var mayAct: Bool { principal.may(.act) }

    /// A document with the frame of the console.
    func document(_ title: String, _ section: Section, refresh: Int? = nil, _ body: HTML) -> HTML {
        PageShell(title, section, principal: principal, hasSession: hasSession, refresh: refresh).document(body)
    }
}
