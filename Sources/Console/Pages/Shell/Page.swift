import Hummingbird
import Postgres
import Querying

struct Page: Sendable {
    let path: String
    var right = ConsoleRight.read
    let make: @Sendable (PageRequest) async throws -> HTML

    func add(to router: RouterGroup<ConsoleContext>, _ services: ConsoleServices, _ section: Section?) {
        router.get(RouterPath(path)) { request, context in
            let principal = try context.require(right)
            let page = PageRequest(
                query: try PageQuery(request.uri.query ?? ""),
                context: context,
                principal: principal,
                services: services,
                section: section,
                hasSession: SessionCookie.id(in: request, isSecure: context.isSecure) != nil
            )
            return Response(html: try await make(page))
        }
    }
}

struct PageRequest: Sendable {
    let query: PageQuery
    let context: ConsoleContext
    let principal: Principal
    let services: ConsoleServices
    let section: Section?
    /// Whether they signed in on the sign-in page.
    let hasSession: Bool

    func part(_ name: String) -> String { (try? context.pathPart(name)) ?? "" }

    /// Whether the reader may act; otherwise no buttons are shown.
    var mayAct: Bool { principal.may(.act) }

    /// What pages show: never a registration token.
    var sight: Sight { services.sight }

    /// Reads what is stored, where `database.read_url` says.
    func read<T: Sendable>(_ body: @Sendable (PostgresConnection) async throws -> T) async throws -> T {
        try await services.reader.withConnection(.look, body)
    }

    /// Reads what runs now, and PostgreSQL's counters: at the primary.
    func look<T: Sendable>(_ body: @Sendable (PostgresConnection) async throws -> T) async throws -> T {
        try await services.primary.withConnection(.look, body)
    }

    /// A document with the frame of the console.
    func document(_ title: String, refresh: Int? = nil, _ body: HTML) -> HTML {
        PageShell(title: title, section: section, principal: principal, hasSession: hasSession, refresh: refresh)
            .document(body)
    }
}
