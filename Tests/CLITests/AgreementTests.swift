import ConsoleSupport
import Foundation
import QuerySupport
import Testing

@Suite("commands and the API")
struct AgreementTests {
    private static let lists = [
        (["messages", "list"], "messages"), (["conflicts", "list"], "conflicts"),
        (["quarantine", "list"], "quarantine"),
        (["dead", "list"], "dead"), (["dead", "groups"], "dead/groups"), (["deliveries", "list"], "deliveries"),
        (["handlers", "list"], "handlers"), (["replay", "status"], "replays"),
    ]
    /// What changes from one look to the next, says where this one stopped counting, or is not a viewer's to see.
    private static let moving: Set = ["oldest_seconds", "elapsed_seconds", "counted_to", "selection"]

    @Test("show the same members with the same values of every resource")
    func agree() async throws {
        try await ConsoleHarness.run(Awkward.seeds, prepare: CommandStage.fill) { console in
            let stage = try CommandStage(on: console.database)
            for (command, path) in Self.lists {
                let run = try await stage.run(command + ["--json"])
                let json = try JSONSerialization.jsonObject(with: Data(run.output.utf8))
                let rows = try #require(json as? [[String: Any]], "\(command)")
                let items = try await console.get("/api/v1/" + path).items
                #expect(!rows.isEmpty && rows.count == items.count, "\(command)")
                for (row, item) in zip(rows, items) {
                    #expect(Set(row.keys) == Set(item.keys), "\(command)")
                    for (name, value) in row where !Self.moving.contains(name) {
                        #expect(value as? NSObject == item[name] as? NSObject, "\(command) \(name)")
                    }
                }
            }
        }
    }
}
