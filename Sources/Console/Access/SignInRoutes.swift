import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import Telemetry

/// The page on which a token is exchanged for a session, one-time links, and signing out.
struct SignInRoutes {
    let access: ConsoleAccess

    func add(to router: RouterGroup<ConsoleContext>) {
        router.get("sign-in") { request, _ in
            let next = Self.safe(request.uri.queryParameters["next"].map(String.init))
            return SignInPage.response(next: next, problem: nil, status: .ok)
        }
        router.post("sign-in") { request, context in try await signIn(request, context) }
        router.get("sign-in/once/:secret") { request, context in
            let secret = try context.parameters.require("secret")
            return begin(try access.link(secret, context.clientKey), request, context, SignInPage.onward(to: "/"))
        }
        router.post("sign-out") { request, context in
            if let id = SessionCookie.id(in: request, isSecure: context.isSecure) { access.sessions.end(id) }
            var response = Self.redirect(to: "/sign-in")
            response.headers[.setCookie] = SessionCookie.header("", isSecure: context.isSecure, lifetime: .zero)
            return response
        }
    }

    private func signIn(_ request: Request, _ context: ConsoleContext) async throws -> Response {
        guard request.mediaType == "application/x-www-form-urlencoded" else {
            throw Problem(.mediaType, "send the form of the page /sign-in")
        }
        var request = request
        let body = try await request.collectBody(upTo: 4 << 10)
        let pairs = try FormText.pairs(String(decoding: body.readableBytesView, as: UTF8.self))
        let form = Dictionary(pairs.map { ($0.name, $0.value) }) { first, _ in first }
        guard form.count == pairs.count else { throw Problem.badRequest("a field of the form appears twice") }
        let next = Self.safe(form["next"])
        do throws(Problem) {
            let token = (form["token"] ?? "").trimmingCharacters(in: .whitespacesAndNewlines)
            let entry = try access.entry(for: token.utf8, context.clientKey)
            return begin(.token(entry.id), request, context, name: entry.principal.name, Self.redirect(to: next))
        } catch {
            let problem = error
            let words =
                problem.status == .tooManyRequests
                ? "Too many wrong tokens. \(problem.detail)." : "That is not a token of this console."
            var response = SignInPage.response(next: next, problem: words, status: problem.status)
            response.headers[.retryAfter] = problem.headers[.retryAfter]
            return response
        }
    }

    /// Begins a session with an answer.
    private func begin(
        _ source: SessionStore.Source,
        _ request: Request,
        _ context: ConsoleContext,
        name: String? = nil,
        _ answer: Response
    ) -> Response {
        let previous = SessionCookie.id(in: request, isSecure: context.isSecure)
        let id = access.sessions.begin(source, replacing: previous)
        var who = name ?? ""
        if case .link(let principal) = source { who = principal.name }
        access.logger.event(
            .info,
            .consoleSignedIn,
            "somebody signed in to the console",
            [.principal: .string(who), .address: .string(context.clientKey)]
        )
        var response = answer
        let lifetime = access.settings.sessionLifetime
        response.headers[.setCookie] = SessionCookie.header(id, isSecure: context.isSecure, lifetime: lifetime)
        return response
    }

    private static func redirect(to path: String) -> Response {
        Response(status: .seeOther, headers: [.location: path])
    }

    /// A path of ours to continue to; anything that could lead elsewhere becomes `/`.
    static func safe(_ path: String?) -> String {
        guard let path, path.hasPrefix("/"), !path.hasPrefix("//"), path.utf8.count <= 2_048,
            path.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "\\") })
        else { return "/" }
        return path
    }
}

/// The sign-in pages; they work without script.
enum SignInPage {
    static func response(next: String, problem: String?, status: HTTPResponse.Status) -> Response {
        let problem: HTML =
            problem.map { "<p class=\"notice bad\" role=\"alert\" id=\"problem\">\($0)</p>" } ?? ""
        let body: HTML = """
            <h1>Sign in</h1>\(problem)
            <form class="stack" method="post" action="/sign-in"><input type="hidden" name="next" value="\(exact: next)">
            <div><label for="token">Token</label>
            <input id="token" name="token" type="password" autocomplete="current-password" required autofocus></div>
            <p class="muted">A token of <code>console.tokens</code> in the configuration.</p>
            <button class="primary" type="submit">Sign in</button></form>
            """
        return Response(html: PageShell(title: "Sign in").card(body), status: status)
    }

    /// A page that redirects by itself.
    ///
    /// If the link was clicked on another site, an HTTP redirect would count as that site's navigation, and the
    /// same-site cookie would not be sent with it.
    static func onward(to path: String) -> Response {
        let head: HTML = "<meta http-equiv=\"refresh\" content=\"0;url=\(exact: path)\">"
        let body: HTML = "<h1>Signed in</h1><p><a href=\"\(exact: path)\">Go on to the console</a></p>"
        return Response(html: PageShell(title: "Signed in").card(body, head: head))
    }
}
