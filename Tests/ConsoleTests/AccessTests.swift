import ConsoleSupport
import HTTPTypes
import Hummingbird
import IntegrationSupport
import Logging
import NIOCore
import Synchronization
import Testing
import UpstreamConfiguration

@testable import Console

@Suite struct AccessTests {
    @Test("roles are written as the configuration names them")
    func names() {
        #expect(ConsoleRole.allCases.map(\.rawValue) == ["viewer", "operator", "auditor"])
    }

    @Test("each role has its rights, and the right to reveal is nobody's by role")
    func rights() {
        func rights(_ role: ConsoleRole, reveals: Bool = false) -> [ConsoleRight] {
            ConsoleRight.allCases.filter { Principal(name: "x", role: role, reveals: reveals).may($0) }
        }
        #expect(rights(.viewer) == [.read])
        #expect(rights(.operator_) == [.read, .act, .audit])
        #expect(rights(.auditor) == [.read, .audit])
        #expect(rights(.viewer, reveals: true) == [.read, .reveal])
    }

    @Test("a token is let in as its role, and nothing else is")
    func tokens() async throws {
        try await ConsoleHarness.run { console in
            let reply = try await console.get("/api/v1/whoami", as: .operator_)
            #expect(reply.status == 200)
            #expect(
                reply.text == "{\"name\":\"operator\",\"role\":\"operator\",\"rights\":[\"read\",\"act\",\"audit\"]}\n"
            )
            let nobody = try await console.get("/api/v1/whoami", as: .nobody)
            #expect(nobody.status == 401)
            #expect(nobody.header("WWW-Authenticate")?.hasPrefix("Bearer") == true)
            #expect(nobody.object["type"] as? String == "/problems/unauthorized")
            #expect(try await console.get("/api/v1/nothing").status == 404)
            let wrong = try await console.post("/api/v1/whoami")
            #expect(wrong.status == 405 && wrong.header("Allow") == "GET, HEAD")
            #expect(wrong.header("Content-Type") == "application/problem+json")
        }
    }

    private static func secret(_ name: String) -> [UInt8] { Array("FAKE-\(name)-0123456789-0123456789".utf8) }

    @Test("one secret for two holders is refused at the start, and after a rotation lets neither in")
    func shared() throws {
        let quiet = Logger.quiet
        let clock = ManualClock()
        let secrets = Mutex([Self.secret("a"), Self.secret("b")])
        var rules = ConsoleAccess.Settings()
        rules.now = clock.now
        for (index, role) in [ConsoleRole.viewer, .operator_].enumerated() {
            rules.tokens.append(
                ConsoleToken(Principal(name: "holder \(index)", role: role)) { secrets.withLock { [$0[index]] } }
            )
        }
        rules.tokens.append(
            ConsoleToken(Principal(name: "other", role: .viewer)) { [Self.secret("c"), Self.secret("c")] }
        )
        let access = try ConsoleAccess(rules, logger: quiet)
        #expect(try access.entry(for: Self.secret("b"), "x").principal.name == "holder 1")
        secrets.withLock { $0 = [Self.secret("a"), Self.secret("a")] }
        clock.advance(.seconds(6))
        #expect(throws: Problem.self) { try access.entry(for: Self.secret("a"), "x") }
        #expect(try access.entry(for: Self.secret("c"), "x").principal.name == "other")
        let error = #expect(throws: ConsoleError.self) { try ConsoleAccess(rules, logger: quiet) }
        let text = error?.description ?? ""
        #expect(text.contains("'holder 0' and 'holder 1' hold the same token") && !text.contains("FAKE"))
    }

    @Test(
        "a host is a name or an address with a port behind it, or nothing else",
        arguments: [
            ("localhost", true), ("localhost:9465", true), ("LOCALHOST:1", true), ("127.0.0.1:9465", true),
            ("[::1]", true), ("[::1]:9465", true), ("console.example:443", true), ("[::1]evil.example", false),
            ("[::1]:9465evil.example", false), ("[::1]:", false), ("localhost:evil.example", false),
            ("localhost:94 evil", false), ("localhost:", false), ("127.0.0.1:1:2", false), ("[localhost]", false),
            ("evil.example", false), ("[::1", false), ("", false), ("127.0.0.1:999999", false),
        ]
    )
    func hosts(_ host: String, _ isOurs: Bool) {
        #expect(AllowedHosts(["console.example"], isOnLoopback: true).contains(host) == isOurs)
        let anyName = AllowedHosts([], isOnLoopback: false)
        #expect(anyName.contains(host) == (isOurs || host == "evil.example"))
    }

    private static func request(_ headers: HTTPFields) -> Request {
        let head = HTTPRequest(method: .get, scheme: nil, authority: nil, path: "/", headerFields: headers)
        return Request(head: head, body: RequestBody(buffer: ByteBuffer()))
    }

    @Test(
        "the client that a proxy names is read with a port and without",
        arguments: [
            ("203.0.113.9", "203.0.113.9"), ("198.51.100.7, 203.0.113.9:4711", "203.0.113.9"),
            ("[2001:db8:1:2::9]:4711", "32.1.13.184.0.1.0.2"), ("[2001:db8:1:2::9]", "32.1.13.184.0.1.0.2"),
            ("2001:db8:1:2::9", "32.1.13.184.0.1.0.2"), ("203.0.113.9 ", "203.0.113.9"),
            ("203.0.113.9:evil", "local"), ("unknown", "local"),
        ]
    )
    func forwarded(_ header: String, _ key: String) {
        #expect(ClientAddress(nil).behindProxy(Self.request([.forwardedFor: header])).key == key)
    }

    @Test("a proxy's user has a role by the bytes of the name: one that only looks the same has none")
    func userNames() throws {
        let users = ["Zo\u{EB}": Principal(name: "", role: .operator_)]
        let proxy = TrustedProxy(networks: [], header: .named("X-User"), users: users)
        func user(_ name: String) throws -> Principal? {
            try proxy.user(of: Self.request([.named("X-User"): name]))
        }
        #expect(try user("Zo\u{EB}")?.role == .operator_)
        #expect(throws: Problem.self) { try user("Zoe\u{308}") }
    }
}
