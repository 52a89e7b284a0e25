import ConsoleSupport
import Postgres
import QuerySupport
import Synchronization
import Testing
import UpstreamConfiguration
import Vocabulary

@testable import Console

@Suite struct SignInTests {
    private typealias Caller = ConsoleHarness.Caller

    /// Posts the sign-in form, as a browser would from the page.
    private static func signIn(
        _ console: ConsoleHarness,
        _ token: String?,
        next: String = "/",
        cookie: String? = nil
    ) async throws -> ConsoleReply {
        var headers = ["Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"]
        headers["Cookie"] = cookie
        let form = "token=\(token ?? "")&next=\(next)"
        return try await console.send("/sign-in", "POST", as: .nobody, headers: headers, json: form)
    }

    private static func rules(_ clock: ManualClock) -> ConsoleAccess.Settings {
        var rules = ConsoleAccess.Settings()
        rules.now = clock.now
        return rules
    }

    private static func token(_ digest: [UInt8]) -> SessionStore.Source {
        .token(TokenRegistry.Entry.ID(digest: digest, stay: 0))
    }

    /// `name=value` of an answer's cookie.
    private static func cookie(_ reply: ConsoleReply) throws -> String {
        String(try #require(reply.header("Set-Cookie")).prefix { $0 != ";" })
    }

    private static func whoami(_ console: ConsoleHarness, _ cookie: String) async throws -> String? {
        try await console.get("/api/v1/whoami", as: .nobody, headers: ["Cookie": cookie]).object["name"] as? String
    }

    @Test("a token is exchanged for a session that no script sees and no other site sends, until signing out")
    func session() async throws {
        try await ConsoleHarness.run { console in
            let page = try await console.get("/sign-in?next=/messages", as: .nobody)
            #expect(page.status == 200 && page.text.contains("value=\"/messages\""))
            let reply = try await Self.signIn(console, Caller.operator_.token, next: "%2Fmessages%3Flimit%3D2")
            #expect(reply.status == 303 && reply.header("Location") == "/messages?limit=2")
            let set = try #require(reply.header("Set-Cookie"))
            #expect(set.hasSuffix("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "\(set)")
            let cookie = try Self.cookie(reply)
            #expect(cookie.split(separator: "=").last?.count == 64)
            let other = try Self.cookie(try await Self.signIn(console, Caller.viewer.token))
            #expect(try await Self.whoami(console, cookie) == "operator")
            #expect(try await Self.whoami(console, other) == "viewer")
            let out = ["Cookie": cookie, "Origin": "http://127.0.0.1:\(console.port)"]
            let signedOut = try await console.send("/sign-out", "POST", as: .nobody, headers: out)
            #expect(signedOut.status == 303 && signedOut.header("Set-Cookie")?.contains("=; Path=/; Max-Age=0") == true)
            #expect(try await Self.whoami(console, cookie) == nil)
            #expect(try await Self.whoami(console, other) == "viewer")
        }
    }

    @Test("a wrong token gets the page again, which quotes nothing of it")
    func wrong() async throws {
        try await ConsoleHarness.run { console in
            let reply = try await Self.signIn(console, "FAKE-wrong%3Cscript%3E", next: "%22%3E%3Cscript%3E")
            #expect(reply.status == 401 && reply.header("Set-Cookie") == nil)
            #expect(reply.text.contains("not a token"))
            // The page's own scripts are files.
            #expect(!reply.text.contains("FAKE-wrong") && !reply.text.contains("<script>"))
        }
    }

    @Test("an id that was there before signing in is worth nothing, whoever knows it")
    func fixation() async throws {
        try await ConsoleHarness.run { console in
            let planted = "upstream-session=" + String(repeating: "a", count: 64)
            let reply = try await Self.signIn(console, Caller.viewer.token, cookie: planted)
            let own = try Self.cookie(reply)
            #expect(own != planted)
            #expect(try await Self.whoami(console, planted) == nil)
            // Signing in again ends the session before.
            let next = try Self.cookie(try await Self.signIn(console, Caller.operator_.token, cookie: own))
            #expect(try await Self.whoami(console, own) == nil)
            #expect(try await Self.whoami(console, next) == "operator")
            // Two cookies of the name could be one of somebody else's.
            #expect(try await Self.whoami(console, next + "; " + planted) == nil)
        }
    }

    @Test("a session ends with its time, and with its token")
    func ends() async throws {
        let clock = ManualClock()
        let secrets = Mutex<[[UInt8]]>([Array("FAKE-a-token-that-is-rotated-in-this-test".utf8)])
        var rules = Self.rules(clock)
        rules.sessionLifetime = .seconds(600)
        rules.tokens.append(
            ConsoleToken(Principal(name: "rotated", role: .viewer)) { secrets.withLock { $0 } }
        )
        try await ConsoleHarness.run(rules: rules) { console in
            let old = "FAKE-a-token-that-is-rotated-in-this-test"
            let new = "FAKE-the-token-that-replaces-the-other-one"
            let cookie = try Self.cookie(try await Self.signIn(console, old))
            clock.advance(.seconds(599))
            #expect(try await Self.whoami(console, cookie) == "rotated")
            clock.advance(.seconds(1))
            #expect(try await Self.whoami(console, cookie) == nil)
            let second = try Self.cookie(try await Self.signIn(console, old))
            // Both are valid while one replaces the other.
            secrets.withLock { $0 = [Array(new.utf8), Array(old.utf8)] }
            clock.advance(.seconds(6))
            #expect(try await Self.whoami(console, second) == "rotated")
            #expect(try await Self.signIn(console, new).status == 303)
            secrets.withLock { $0 = [Array(new.utf8)] }
            clock.advance(.seconds(6))
            #expect(try await Self.whoami(console, second) == nil)
            #expect(try await Self.signIn(console, old).status == 401)
        }
    }

    @Test("a session that ended with its token stays ended when the token comes back")
    func withdrawn() async throws {
        let clock = ManualClock()
        let token = "FAKE-a-token-that-is-withdrawn-and-given-back"
        let secrets = Mutex<[[UInt8]]>([Array(token.utf8)])
        var rules = Self.rules(clock)
        rules.tokens.append(ConsoleToken(Principal(name: "guest", role: .viewer)) { secrets.withLock { $0 } })
        try await ConsoleHarness.run(rules: rules) { console in
            let cookie = try Self.cookie(try await Self.signIn(console, token))
            secrets.withLock { $0 = [] }
            clock.advance(.seconds(6))
            // The console looks by itself: nobody with that session asks meanwhile.
            console.access.refreshTokens()
            secrets.withLock { $0 = [Array(token.utf8)] }
            clock.advance(.seconds(6))
            #expect(try await Self.whoami(console, cookie) == nil)
            let again = try Self.cookie(try await Self.signIn(console, token))
            clock.advance(.seconds(6))
            #expect(try await Self.whoami(console, again) == "guest")
        }
    }

    @Test(
        "a stream ends with the token, or the session, that it began with: nothing that comes later is sent",
        arguments: [false, true]
    )
    func withdrawnStream(hasSession: Bool) async throws {
        let clock = ManualClock()
        let token = "FAKE-a-token-that-is-withdrawn-while-it-streams"
        let secrets = Mutex<[[UInt8]]>([Array(token.utf8)])
        var rules = Self.rules(clock)
        rules.tokens.append(ConsoleToken(Principal(name: "guest", role: .viewer)) { secrets.withLock { $0 } })
        try await ConsoleHarness.run([Seed(id: "before")], rules: rules) { console in
            try await console.database.script("SELECT upstream.ensure_partitions(current_date - 2, current_date + 2)")
            let cookie = try Self.cookie(try await Self.signIn(console, token))
            let proof = hasSession ? ["Cookie": cookie] : ["Authorization": "Bearer \(token)"]
            var events = EventReader(try await console.open("/api/v1/messages/stream", as: .nobody, headers: proof))
            #expect(try await events.next("message")?.text("message_id") == "before")
            secrets.withLock { $0 = [] }
            clock.advance(.seconds(6))
            console.access.refreshTokens()
            let now = try await console.database.admin.databaseTime()
            try await console.database.add([Seed(id: "after", at: (now - QueryFixture.start).microseconds)])
            // It ends, and not only where the client gives up.
            var seen: [String] = []
            await #expect(throws: (any Error).self) {
                while !seen.contains("after"), let event = try await events.next() {
                    seen.append(event.text("message_id") ?? "")
                }
            }
            #expect(!seen.contains("after"))
        }
    }

    @Test("a form with a field twice is refused")
    func twice() async throws {
        try await ConsoleHarness.run { console in
            let token = Caller.viewer.token ?? ""
            let reply = try await Self.signIn(console, token, next: "/&token=\(token)")
            #expect(reply.status == 400)
        }
    }

    @Test("a link signs somebody in once, and not after its time")
    func link() async throws {
        let clock = ManualClock()
        try await ConsoleHarness.run(rules: Self.rules(clock)) { console in
            let somebody = Principal(name: "dev", role: .operator_)
            let path = console.access.oneTimePath(for: somebody, lifetime: .seconds(60))
            // What asks for a preview does not use it up.
            #expect(try await console.send(path, "HEAD", as: .nobody).status == 404)
            let reply = try await console.get(path, as: .nobody)
            #expect(reply.status == 200 && reply.text.contains("0;url=/"))
            #expect(try await Self.whoami(console, try Self.cookie(reply)) == "dev")
            #expect(try await console.get(path, as: .nobody).status == 404)
            let late = console.access.oneTimePath(for: somebody, lifetime: .seconds(60))
            clock.advance(.seconds(60))
            #expect(try await console.get(late, as: .nobody).status == 404)
        }
    }

    @Test("guesses are slowed, ten and then one in three seconds, and lock nobody out who has a token or a link")
    func guesses() async throws {
        let clock = ManualClock()
        try await ConsoleHarness.run(rules: Self.rules(clock)) { console in
            let session = try Self.cookie(try await Self.signIn(console, Caller.viewer.token))
            var statuses: [Int: Int] = [:]
            for number in 0..<10_000 {
                let guess = ["Authorization": "Bearer FAKE-guess-\(number)"]
                let path = number.isMultiple(of: 2) ? "/api/v1/whoami" : "/"
                statuses[try await console.get(path, as: .nobody, headers: guess).status, default: 0] += 1
            }
            // Of a page, the refusal is the way to the sign-in page.
            #expect((statuses[401] ?? 0) + (statuses[303] ?? 0) == 10 && statuses[429] == 9_990, "\(statuses)")
            let wrong = try await Self.signIn(console, "FAKE-guess")
            #expect(wrong.status == 429 && wrong.header("Retry-After") == "3")
            #expect(try await console.get("/sign-in/once/FAKE-guess", as: .nobody).status == 429)
            // Behind NAT or a proxy others have the same address.
            #expect(try await console.get("/api/v1/whoami", as: .operator_).status == 200)
            #expect(try await Self.signIn(console, Caller.operator_.token).status == 303)
            #expect(try await Self.whoami(console, session) == "viewer")
            let somebody = Principal(name: "dev", role: .operator_)
            let link = console.access.oneTimePath(for: somebody, lifetime: .seconds(60))
            #expect(try await console.get(link, as: .nobody).status == 200)
            clock.advance(.seconds(4))
            #expect(try await Self.signIn(console, "FAKE-guess").status == 401)
        }
    }

    @Test(
        "after signing in nobody is led elsewhere",
        arguments: ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a b", ""]
    )
    func redirects(_ next: String) {
        #expect(SignInRoutes.safe(next) == "/")
        #expect(SignInRoutes.safe("/messages?a=b") == "/messages?a=b")
    }

    @Test("sign-ins and links are bounded: the first to end makes room")
    func bounded() {
        let clock = ManualClock()
        let store = SessionStore(lifetime: .seconds(60), now: clock.now)
        let first = store.begin(Self.token([1]), replacing: nil)
        clock.advance(.seconds(1))
        let second = store.begin(Self.token([2]), replacing: nil)
        for number in 1..<SessionStore.limit {
            _ = store.begin(Self.token([3, UInt8(number / 50), UInt8(number % 50)]), replacing: nil)
        }
        #expect(store.count == SessionStore.limit)
        #expect(store.source(of: first) == nil)
        #expect(store.source(of: second) != nil)
    }

    @Test("who signs in over and over ends their own sessions, and nobody else's")
    func boundedEach() {
        let clock = ManualClock()
        let store = SessionStore(lifetime: .seconds(60), now: clock.now)
        let other = store.begin(Self.token([1]), replacing: nil)
        let person = SessionStore.Source.link(Principal(name: "dev", role: .operator_))
        let link = store.begin(person, replacing: nil)
        clock.advance(.seconds(1))
        let first = store.begin(Self.token([2]), replacing: nil)
        clock.advance(.seconds(1))
        var last = ""
        for _ in 0..<(SessionStore.limit * 2) { last = store.begin(Self.token([2]), replacing: nil) }
        #expect(store.count == SessionStore.limitOfOne + 2)
        #expect(store.source(of: other) != nil && store.source(of: link) != nil)
        #expect(store.source(of: first) == nil && store.source(of: last) != nil)
        for _ in 0..<(SessionStore.limit * 2) { _ = store.begin(person, replacing: nil) }
        #expect(store.count == SessionStore.limitOfOne * 2 + 1)
    }

    @Test("a limiter tells addresses apart in bounded memory, and gives back with time")
    func limiter() {
        let clock = ManualClock()
        let limiter = RateLimiter(burst: 2, perSecond: 0.5, now: clock.now)
        #expect(limiter.use("a") == nil && limiter.use("a") == nil)
        #expect(limiter.use("a") == .seconds(2))
        #expect(limiter.use("b") == nil)
        clock.advance(.seconds(2))
        #expect(limiter.use("a") == nil && limiter.use("a") != nil)
        for number in 0..<(RateLimiter.keyLimit * 2) { limiter.use("key \(number)") }
        #expect(limiter.count <= RateLimiter.keyLimit + 1)
        // Those beyond the bound share one bucket.
        #expect(limiter.use("one more") != nil)
    }
}
