import ConsoleSupport
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
}
