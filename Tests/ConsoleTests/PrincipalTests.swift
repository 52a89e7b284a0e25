import Testing

@testable import Console

struct PrincipalTests {
    @Test("roles are written as the configuration names them")
    func names() {
        #expect(ConsoleRole.allCases.map(\.rawValue) == ["viewer", "operator", "auditor"])
    }
}
