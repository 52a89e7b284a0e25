import ConsoleSupport
import Logging
import Synchronization
import Testing

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
        let quiet = Logger(label: "console") { _ in SwiftLogNoOpLogHandler() }
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
}
