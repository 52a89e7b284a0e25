import ConsoleSupport
import QuerySupport
import Testing

@testable import Console

@Suite("replays that are planned by HTTP")
struct ReplayPlanTests {
    private static func hide(_ settings: inout ConsoleSettings) { settings.showsPayloads = false }

    @Test("a console that hides payloads plans no replay by what they hold")
    func hiddenPayloads() async throws {
        try await ConsoleHarness.run([Seed(id: "m-1")], configure: Self.hide) { console in
            try await console.database.script("INSERT INTO upstream.handlers (name) VALUES ('orders')")
            let reply = try await console.act(
                "replays/plan",
                #"{"name":"guess","handlers":["orders"],"filter":{"where":["data.a=1"]}}"#
            )
            #expect(reply.status == 403, "\(reply.text)")
            #expect(reply.object["type"] as? String == "/problems/payloads-hidden")
            #expect(try await console.count("replays") == 0)
            let plain = try await console.act("replays/plan", #"{"handlers":["orders"],"filter":{"where":[]}}"#)
            #expect(plain.status == 201, "\(plain.text)")
        }
    }
}
