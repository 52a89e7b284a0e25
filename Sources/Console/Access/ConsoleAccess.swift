import HTTPTypes
import Hummingbird
package import Logging
import NIOCore
import Telemetry

/// Authenticates requests and detects those forged by other sites' pages.
package final class ConsoleAccess: Sendable {
    /// Who is let in.
    package struct Settings: Sendable {
        package var tokens: [ConsoleToken] = []
        /// The proxy that authenticates people.
        package var proxy: TrustedProxy?
        /// The principal of unauthenticated requests; nil if they are refused.
        ///
        /// Only where nothing but this machine reaches the console. Does not apply to what a proxy passed on, which
        /// comes from this machine too.
        package var anybody: Principal?
        /// The host names that requests may be addressed to.
        package var hosts = AllowedHosts([], isOnLoopback: true)
        package var isTLS = false
        package var sessionLifetime = Duration.seconds(43_200)
        package var now: @Sendable () -> ContinuousClock.Instant = { .now }

        package init() {}
    }

    /// How somebody authenticated.
    enum Proof: Sendable, Equatable {
        case none
        case token
        /// Kinds that a browser adds by itself, whoever made the request.
        case session, proxy, anybody
    }

    /// What is known of a request's sender.
    struct Sender: Sendable {
        var principal: Principal?
        var proof: Proof
        /// Whether the client's own connection is TLS.
        var isSecure: Bool
        /// The key that limits count by.
        var key: String
        /// Whether the proof is still valid: a long-running answer ends when it is withdrawn.
        var lasts: @Sendable () -> Bool = { true }
    }

    let settings: Settings
    let sessions: SessionStore
    let logger: Logger
    private let tokens: TokenRegistry
    /// Failed sign-ins: ten at once, then one in three seconds.
    ///
    /// Does not limit those who authenticate.
    private let failures: RateLimiter
    /// Requests: a page with its parts is one burst.
    private let requests: RateLimiter

    /// Sets up access by these rules.
    ///
    /// - Throws: What reading a token throws; ``ConsoleError`` if two are the same.
    package init(_ settings: Settings, logger: Logger) throws {
        self.settings = settings
        self.logger = logger
        tokens = try TokenRegistry(settings.tokens, logger: logger, now: settings.now)
        sessions = SessionStore(lifetime: settings.sessionLifetime, now: settings.now)
        failures = RateLimiter(burst: 10, perSecond: 1 / 3, now: settings.now)
        requests = RateLimiter(burst: 400, perSecond: 100, now: settings.now)
    }

    /// The path of a link that signs in `principal` once within `lifetime`; a secret until then.
    package func oneTimePath(for principal: Principal, lifetime: Duration) -> String {
        "/sign-in/once/" + sessions.makeLink(for: principal, lifetime: lifetime)
    }

    func refreshTokens() { tokens.refresh() }

    /// Authenticates a request.
    ///
    /// - Throws: A ``Problem`` if what was sent proves nothing, is ambiguous, or comes too often.
    func sender(of request: Request, from peer: SocketAddress?) throws(Problem) -> Sender {
        var client = ClientAddress(peer)
        var sender = Sender(principal: nil, proof: .none, isSecure: settings.isTLS, key: "")
        var user: Principal?
        if let proxy = settings.proxy, proxy.sends(from: client.address) {
            if request.headers[values: .forwardedProto] == ["https"] { sender.isSecure = true }
            client = client.behindProxy(request)
            user = try proxy.user(of: request)
            // The audit trail and idempotency keys tell people apart by name.
            if let name = user?.name, settings.tokens.contains(where: { $0.principal.name == name }) {
                let fix = "the proxy's user is named as one of console.tokens is: give the token another name"
                throw Problem(.forbidden, fix)
            }
        }
        sender.key = client.key
        if let user {
            (sender.principal, sender.proof) = (user, .proxy)
        } else if let value = request.headers[values: .authorization].first {
            guard request.headers[values: .authorization].count == 1 else {
                throw .badRequest("the header Authorization came twice")
            }
            let entry = try bearer(value, client.key)
            (sender.principal, sender.proof) = (entry.principal, .token)
            sender.lasts = { [tokens] in tokens.entry(entry.id) != nil }
        } else if let id = SessionCookie.id(in: request, isSecure: sender.isSecure), let principal = principal(of: id) {
            (sender.principal, sender.proof) = (principal, .session)
            sender.lasts = { [self] in self.principal(of: id) != nil }
        } else if let anybody = settings.anybody, !ForwardingHeaders.areIn(request) {
            (sender.principal, sender.proof) = (anybody, .anybody)
        }
        return sender
    }

    /// Counts a request.
    ///
    /// - Throws: A ``Problem`` with status 429 if the sender asks too often.
    func count(_ sender: Sender) throws(Problem) {
        let key = sender.principal.map { "principal " + $0.name } ?? "address " + sender.key
        guard let wait = requests.use(key) else { return }
        throw .tooMany("more than 100 requests a second", wait)
    }

    /// Looks up a token; `key` identifies the client to the limits.
    ///
    /// - Throws: A ``Problem``: the token is unknown, or, after too many attempts, how long to wait.
    func entry(for token: some Sequence<UInt8>, _ key: String) throws(Problem) -> TokenRegistry.Entry {
        // A right one first: many people may share an address behind NAT or a proxy, and a stranger there must not lock
        // them out. Guessing can't find a token of 128 bits or more; the limit keeps down log and noise.
        if let entry = tokens.entry(for: token) { return entry }
        if let wait = failures.use(key) { throw .tooMany("too many wrong tokens", wait) }
        logger.event(.notice, .consoleSignInRefused, "a wrong token was sent to the console", [.address: .string(key)])
        throw .unauthorized
    }

    /// Consumes a one-time link and returns whom it signs in.
    ///
    /// - Throws: A ``Problem``: the link is unknown, used or expired, or, after too many attempts, how long to wait.
    func link(_ secret: String, _ key: String) throws(Problem) -> SessionStore.Source {
        if let source = sessions.useLink(secret) { return source }
        if let wait = failures.use(key) { throw .tooMany("too many wrong links", wait) }
        let fix = "start the program again for another, or sign in with a token"
        throw Problem(.linkUsed, "a sign-in link works once and for a few minutes: \(fix)")
    }

    private func bearer(_ value: String, _ key: String) throws(Problem) -> TokenRegistry.Entry {
        let parts = value.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].lowercased() == "bearer" else { throw .unauthorized }
        return try entry(for: parts[1].utf8, key)
    }

    /// The principal of a session; nil if it has ended.
    private func principal(of session: String) -> Principal? {
        switch sessions.source(of: session) {
        case .token(let id): return tokens.entry(id)?.principal
        case .link(let principal): return principal
        case nil: return nil
        }
    }
}
