import CLI
import Foundation
import QuerySupport
import Testing
import Vocabulary

@Suite("what commands show on terminals of several widths", .timeLimit(.minutes(4)))
struct TableTests {
    @Test("no line is wider than the terminal, and no key is cut")
    func width() async throws {
        let stage = try await CommandStage.hostile()
        // Bodies are laid out as they are, and a tail cuts its lines where the terminal ends.
        let isLaidOut: Set<[String]> = [["messages", "show"], ["conflicts", "show"], ["quarantine", "show"]]
        for (command, _) in try await stage.listings() {
            for columns in [60, 80, 120, 200] {
                let run = try await stage.run(command, columns: columns)
                #expect([0, 1].contains(run.status), "\(command): \(run.errors)")
                #expect(!run.output.isEmpty, "\(command)")
                for line in run.lines where !isLaidOut.contains(Array(command.prefix(2))) || !line.hasPrefix("  ") {
                    #expect(TerminalText.width(line) <= columns, "\(command) at \(columns): \(line)")
                    #expect(line.firstMatch(of: /[0-9a-f]{8}-[0-9a-f-]*…/) == nil, "\(command) at \(columns): \(line)")
                }
            }
        }
    }

    @Test("what tells a key from the others is in the list whatever the width", arguments: [60, 80, 120, 200])
    func keys(_ columns: Int) async throws {
        let stage = try await CommandStage(Awkward.seeds)
        let run = try await stage.run(["messages", "list"], columns: columns)
        let keys = try await stage.run(["messages", "list"]).objects().compactMap { $0["message_key"] as? String }
        #expect(keys.count == Awkward.seeds.count)
        for key in keys { #expect(run.output.contains(key.prefix(8)), "\(key)\n\(run.output)") }
    }

    @Test("JSON is valid, and the same whatever the width")
    func json() async throws {
        let stage = try await CommandStage.hostile()
        // These show ages, rates and estimates, which change from one run to the next.
        let moving: Set<[String]> = [
            ["stats", "10ms"], ["handlers", "list"], ["replay", "plan"], ["replay", "status"], ["partitions", "plan"],
            ["partitions", "run"],
        ]
        for (command, formats) in try await stage.listings() where formats.contains("--json") {
            var seen: Set<NSObject> = []
            for columns in [60, 80, 120, 200, nil] {
                let run = try await stage.run(command + ["--json"], columns: columns)
                let value = try JSONSerialization.jsonObject(with: Data(run.output.utf8))
                seen.insert(try #require(value as? NSObject, "\(command)"))
            }
            if !moving.contains(Array(command.prefix(2))) { #expect(seen.count == 1, "\(command)") }
        }
    }

    @Test("whatever strangers put into the tables, no command gives a terminal a character that it acts on")
    func hostile() async throws {
        let stage = try await CommandStage.hostile()
        var isSeen = false
        for (command, formats) in try await stage.listings() + [(["messages", "export", "--with-tokens"], ["--csv"])] {
            for format in [[]] + formats.map({ [$0] }) {
                let run = try await stage.run(command + format, columns: 100)
                #expect([0, 1].contains(run.status), "\(command + format): \(run.errors)")
                for text in [run.output, run.errors] {
                    let isClean = text.unicodeScalars.allSatisfy { $0 == "\n" || !Danger.isDangerous($0) }
                    let isRecord = text.replacing("\r\n", with: "\n").replacing("\r\u{1B}[K", with: "")
                        .unicodeScalars.allSatisfy { $0 == "\n" || !Danger.isDangerous($0) }
                    #expect(isClean || isRecord, "\(command + format): \(text.debugDescription.prefix(400))")
                }
                isSeen = isSeen || run.output.contains("\\u{1B}")
            }
        }
        #expect(isSeen)
    }

    @Test(
        "a follower's lines are cut where the terminal ends, and their keys are whole",
        arguments: [60, 80, 120, 200]
    )
    func tail(_ columns: Int) async throws {
        let stage = try await CommandStage([Seed(id: String(repeating: "long ", count: 60))])
        let run = try await stage.run(["messages", "tail"], columns: columns)
        let key = try #require(try await stage.fixture.text("SELECT message_key::text FROM upstream.messages"))
        #expect(run.output.contains(key))
        for line in run.lines { #expect(TerminalText.width(line) <= columns) }
    }
}
