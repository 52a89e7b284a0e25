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

    /// The pages of lists, with the members that identify a row there.
    private static let pages = [
        ("messages", ["message_key", "category"]), ("conflicts", ["message_key", "times_seen"]),
        ("quarantine", ["reason"]), ("dead", ["message_key", "handler"]), ("dead/groups", ["handler"]),
        ("deliveries", ["message_key", "handler"]), ("handlers", ["handler"]), ("replays", ["replay"]),
        ("audit", ["action"]),
    ]
    /// Where a page has another path than the API's list.
    private static let moved = ["dead": "dead/letters", "dead/groups": "dead"]

    @Test("pages show a row for each item of the API, with its values")
    func pagesAgree() async throws {
        try await ConsoleHarness.run(Awkward.seeds, prepare: CommandStage.fill) { console in
            for (path, members) in Self.pages {
                let items = try await console.get("/api/v1/\(path)", as: .auditor).items.prefix(20)
                let page = try await console.get("/\(Self.moved[path] ?? path)", as: .auditor)
                #expect(page.status == 200, "\(path)")
                for item in items {
                    // What needs no escaping in a page.
                    let values = members.compactMap { item[$0].map { "\($0)" } }.filter { value in
                        value.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
                    }
                    let isShown = page.text.components(separatedBy: "<tr>").contains { row in
                        values.allSatisfy(row.contains)
                    }
                    #expect(isShown, "\(path): \(values)")
                }
                #expect(!items.isEmpty || path == "audit", "\(path)")
            }
        }
    }
}
