import DatabaseSupport
import Foundation
import IntegrationSupport
import QuerySupport
import Testing

@Suite("replays as commands", .timeLimit(.minutes(10)))
struct ReplayCommandTests {
    private static let target = ["--handler", "audit", "--include-succeeded"]

    /// Messages, and a handler that has had all of them by a replay of the name `first`.
    private func replayed(_ count: Int) async throws -> CommandStage {
        let stage = try await CommandStage((0..<count).map { Seed(id: "m\($0)", at: Int64($0)) })
        try await stage.fixture.script(
            """
            INSERT INTO upstream.handlers (name, registered_at) VALUES ('audit', '2026-02-01');
            INSERT INTO upstream.subscriptions VALUES ('audit', '*');
            """
        )
        let plan = try await stage.run(["replay", "plan", "first"] + Self.target)
        #expect(plan.status == 0 && !plan.output.contains("replayed "), "\(plan.output)\(plan.errors)")
        let start = try await stage.run(["replay", "start", "first", "--foreground"])
        #expect(start.status == 0 && start.errors.contains("'first' finished: \(count) of \(count)"), "\(start.errors)")
        let again = try await stage.run(["replay", "start", "first", "--json"])
        let states = try again.objects().map { $0["state"] as? String }
        #expect(again.status == 0 && states == ["finished"], "\(again.output)")
        // As if the handler had succeeded.
        try await stage.fixture.script("DELETE FROM upstream.deliveries")
        return stage
    }

    @Test("a plan says how many were replayed before and by which replay; without anything else it is exit code 1")
    func replayedBefore() async throws {
        let stage = try await replayed(12)
        let plan = ["replay", "plan", "second"] + Self.target
        let none = try await stage.run(plan)
        #expect(none.status == 1 && none.errors.contains("--include-replayed sends what was replayed before"))
        #expect(none.output.contains("12 before, by first (12): left out; --include-replayed sends them again"))
        try await stage.fixture.add((20..<23).map { Seed(id: "m\($0)", at: Int64($0)) })
        let some = try await stage.run(plan + ["--dry-run"])
        #expect(some.status == 0 && some.output.contains("12 before, by first (12): left out"), "\(some.output)")
        #expect(some.lines.contains { $0.hasPrefix("to send") && $0.hasSuffix(" 3 deliveries") }, "\(some.output)")
        let all = try await stage.run(plan + ["--dry-run", "--include-replayed", "--json"])
        let object = try #require(try JSONSerialization.jsonObject(with: Data(all.output.utf8)) as? NSDictionary)
        #expect(object["planned"] as? Int == 15 && object["replayed_before"] as? Int == 12)
        #expect(object["replayed_before_is_included"] as? Bool == true)
        let earlier = object["earlier_replays"] as? [NSDictionary]
        #expect(earlier?.count == 1 && earlier?.first?["replay"] as? String == "first")
        #expect(earlier?.first?["count"] as? Int == 12)
        #expect(
            try await stage.fixture.text("SELECT count(*)::text FROM upstream.replays") == "1",
            "dry runs keep nothing"
        )
    }

    @Test("a role that may only read is shown what would be done, and refused with exit code 77 when it starts it")
    func reader() async throws {
        let stage = try await replayed(2)
        let roles = try DeployedRoles.script()
        // Roles belong to the whole cluster, and tests run side by side.
        try await stage.fixture.script("BEGIN; SELECT pg_advisory_xact_lock(1); \(roles); COMMIT")
        let role = "reads\(UInt64.random(in: 0...UInt64.max))"
        try await stage.fixture.script("CREATE ROLE \(role) LOGIN IN ROLE upstream_reader")
        let url = stage.fixture.url.replacingOccurrences(of: "user=upstream", with: "user=\(role)")
        let path = try stage.folder.write("database: {url: \"\(url)\"}\n".utf8, as: "reader.yaml")
        let start = ["replay", "start", "first", "--again", "--config", path]
        let dry = try await stage.run(start + ["--dry-run"])
        #expect(dry.status == 0, "\(dry.errors)")
        let run = try await stage.run(start)
        #expect(run.status == 77 && run.output.isEmpty && run.errors.contains("permission denied"), "\(run.errors)")
        let state = "SELECT string_agg(state::text, ' ') FROM upstream.replays"
        #expect(try await stage.fixture.text(state) == "finished")
        #expect(try await stage.run(["replay", "status", "--config", path]).status == 0)
    }
}
