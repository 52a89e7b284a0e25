import HTTPTypes
import Hummingbird
import Postgres
import Querying

struct Page: Sendable {
    let path: String
    let right: ConsoleRight
    let respond: @Sendable (PageRequest) async throws -> Response

    init(path: String, right: ConsoleRight = .read, make: @escaping @Sendable (PageRequest) async throws -> HTML) {
        self.init(path: path, right: right, respond: { Response(html: try await make($0), gzip: $0.takesGzip) })
    }

    /// A page that may lead to another one.
    init(
        path: String,
        right: ConsoleRight = .read,
        respond: @escaping @Sendable (PageRequest) async throws -> Response
    ) {
        (self.path, self.right, self.respond) = (path, right, respond)
    }

    func add(to router: RouterGroup<ConsoleContext>, _ services: ConsoleServices, _ section: Section?) {
        router.get(RouterPath(path)) { request, context in
            let principal = try context.require(right)
            if let short = PageQuery.shortened(request.head.path ?? "") {
                return Response(status: .seeOther, headers: [.location: short])
            }
            let page = PageRequest(
                query: try PageQuery(request.uri.query ?? ""),
                context: context,
                principal: principal,
                services: services,
                section: section,
                hasSession: SessionCookie.id(in: request, isSecure: context.isSecure) != nil,
                takesGzip: request.takesGzip
            )
            return try await respond(page)
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
    /// Whether its page may be compressed.
    let takesGzip: Bool

    func part(_ name: String) -> String { (try? context.pathPart(name)) ?? "" }

    /// Whether the reader may act; otherwise no buttons are shown.
    var mayAct: Bool { principal.may(.act) }

    /// What the reader may look for.
    var reach: Sight { Sight(tokens: principal.may(.reveal), payloads: sight.payloads) }

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

    /// A document with the frame of the console, and `find` in its search box.
    func document(_ title: String, refresh: Int? = nil, find: String = "", _ body: HTML) -> HTML {
        var shell = PageShell(title: title, section: section, principal: principal, hasSession: hasSession)
        (shell.refresh, shell.find) = (refresh, find)
        return shell.document(body)
    }
}
