import CLI
import Foundation
import QuerySupport
import Testing
import Vocabulary

@Suite("lists", .timeLimit(.minutes(4)))
struct ListTests {
    private static let lists: [(command: [String], none: String)] = [
        (["messages", "list"], "no messages match"), (["conflicts", "list"], "no conflicts match"),
        (["quarantine", "list"], "no quarantined stanzas match"), (["dead", "list"], "no dead letters match"),
        (["dead", "groups"], "no dead letters match"), (["handlers", "list"], "no handlers are registered"),
        (["replay", "status"], "no replays"),
    ]

    @Test("an empty list says so on stderr; stdout holds nothing, [] or the head of CSV")
    func empty() async throws {
        let stage = try await CommandStage()
        for (command, none) in Self.lists {
            for (format, output) in [([], ""), (["--table"], ""), (["--json"], "[]\n"), (["--ndjson"], "")] {
                let run = try await stage.run(command + format, columns: 80)
                #expect(run.status == 0 && run.output == output, "\(command + format): \(run.output)")
                #expect(run.errors == none + "\n", "\(command + format): \(run.errors)")
            }
            let csv = try await stage.run(command + ["--csv"])
            #expect(csv.output.utf8.count { $0 == 0x0A } == 1 && csv.errors == none + "\n", "\(command)")
        }
    }

    @Test("where stdout is no terminal, every list is a JSON object a line; with --columns a table")
    func piped() async throws {
        let stage = try await CommandStage.hostile()
        for (command, _) in Self.lists {
            #expect(try await !stage.run(command).objects().isEmpty, "\(command)")
            let name = try #require(try await stage.run(command + ["--csv"]).lines.first?.split(separator: ",").first)
            let table = try await stage.run(command + ["--columns", String(name)])
            #expect(table.lines.first?.contains("{") == false && table.lines.count > 2, "\(command)")
        }
    }

    @Test("CSV has a record for each row, with as many fields as columns, and the values of JSON")
    func csv() async throws {
        let stage = try await CommandStage.hostile()
        for (command, _) in Self.lists {
            let text = try await stage.run(command + ["--csv"]).output
            let records = try #require(CSV.read(Array(text.utf8)), "\(command)")
            let objects = try await stage.run(command + ["--ndjson"]).objects()
            #expect(records.count == objects.count + 1, "\(command)")
            for record in records { #expect(record.count == records[0].count, "\(command): \(record)") }
            for (record, object) in zip(records.dropFirst(), objects) {
                for (name, field) in zip(records[0], record) {
                    guard let name, let text = object[name] as? String, name != "data" else { continue }
                    #expect(field == text, "\(command) \(name)")
                }
            }
        }
    }

    @Test("in CSV a quotation mark with an accent ends no field, as in a message id that a device made up")
    func accentedQuotes() async throws {
        let ids = ["x\"\u{301},\"y", "\"\u{301}\r\nz"]
        let stage = try await CommandStage(ids.enumerated().map { Seed(id: $1, at: Int64($0)) })
        let run = try await stage.run(["messages", "list", "--csv", "--columns", "message_id,category", "--reverse"])
        let records = try #require(CSV.read(Array(run.output.utf8)), "\(run.output)")
        #expect(records.dropFirst().map { $0[0].map { Array($0.utf8) } } == ids.map { Array($0.utf8) })
    }

    @Test("80 columns have room for the data, and for as much of a key as `show` needs")
    func narrow() async throws {
        let stage = try await CommandStage((0..<5).map { Seed(id: "m-\($0)", data: #"{"total":4711}"#, at: Int64($0)) })
        let run = try await stage.run(["messages", "list"], columns: 80)
        #expect(run.lines[0].contains("DATA") && run.lines[1].contains(#"{"tot"#), "\(run.output)")
        let keys = run.lines.dropFirst().compactMap { $0.split(separator: " ").dropFirst(2).first }.map(String.init)
        #expect(Set(keys).count == 5 && keys.allSatisfy { (8..<36).contains($0.count) }, "\(keys)")
        for key in keys {
            let found = try await stage.run(["messages", "show", key, "--json"])
            let rows = try JSONSerialization.jsonObject(with: Data(found.output.utf8)) as? [Any]
            #expect(rows?.count == 1, "\(found.errors)")
        }
        let wide = try await stage.run(["messages", "list"], columns: 400)
        #expect(wide.lines[1].contains(try await stage.key("m-4")), "\(wide.output)")
    }

    @Test("--columns shows these, in this order, by name or header; an unknown one is exit code 64 with their names")
    func columns() async throws {
        let stage = try await CommandStage([Seed(id: "m-1"), Seed(id: "m-2", at: 1)])
        let run = try await stage.run(["messages", "list", "--columns", "message_id,Received,sender_id"], columns: 80)
        #expect(run.lines.first?.split(separator: " ") == ["ID", "RECEIVED", "SENDER"])
        #expect(run.lines[1].hasPrefix("m-2 ") && run.lines[1].hasSuffix("1234567890"), "\(run.output)")
        let csv = try await stage.run(["messages", "list", "--columns", "message_id,category", "--csv"])
        #expect(csv.output == "message_id,category\r\nm-2,com.example.orders\r\nm-1,com.example.orders\r\n")
        for (command, _) in Self.lists {
            let wrong = try await stage.run(command + ["--columns", "nonsense"])
            #expect(wrong.status == 64 && wrong.errors.contains("columns: "), "\(command): \(wrong.errors)")
        }
        let hint = try await stage.run(["messages", "list", "--columns", "mesage_id"])
        #expect(hint.errors.contains("did you mean 'message_id'?"))
        let json = try await stage.run(["messages", "list", "--columns", "data", "--json"])
        #expect(json.status == 64 && json.errors.contains("--csv"))
    }

    @Test("--reverse prints the same rows, the latest last, in every format")
    func reverse() async throws {
        let stage = try await CommandStage.hostile()
        for (command, _) in Self.lists {
            // The age of what waits and the time that a replay takes change from one run to the next.
            let isMoving = [["handlers", "list"], ["replay", "status"]].contains(command)
            for format in isMoving ? ["--table"] : ["--ndjson", "--csv", "--table"] {
                let forward = try await stage.run(command + [format])
                let reverse = try await stage.run(command + [format, "--reverse"])
                func rows(_ run: CommandRun) -> [String] {
                    switch format {
                    case "--ndjson": run.output.split(separator: "\n").map(String.init)
                    case "--csv": (CSV.read(Array(run.output.utf8)) ?? []).dropFirst().map { "\($0)" }
                    default:
                        run.output.components(separatedBy: "\n\n")[0].split(separator: "\n").dropFirst().map(
                            String.init
                        )
                    }
                }
                let expected = rows(forward)
                #expect(rows(reverse) == expected.reversed(), "\(command) \(format)")
                if command == ["messages", "list"] { #expect(expected.count > 5) }
            }
        }
    }

    @Test("a table keeps the end of an id, and says on stderr which columns have no room", arguments: [64, 72, 80])
    func narrow(_ columns: Int) async throws {
        let id = "0:" + String(repeating: "1", count: 40) + "%the-end"
        let stage = try await CommandStage([Seed(id: id, category: "com.example.very.long.category.orders")])
        let run = try await stage.run(["messages", "list"], columns: columns)
        #expect(run.lines[0].contains("ID"), "\(run.output)")
        #expect(run.lines[1].contains("end") && run.lines[1].contains("0:"), "\(run.output)")
        #expect(run.lines[1].contains("ers"), "\(run.output)")
        #expect(run.errors.contains("not shown at this width: ") && run.errors.contains("device_key"), "\(run.errors)")
        #expect(run.errors.contains("--columns"))
        let chosen = try await stage.run(
            ["messages", "list", "--columns", "message_key,device_key,data"],
            columns: columns
        )
        #expect(chosen.errors.isEmpty && chosen.output.contains(#"{"a":1}"#), "\(chosen.errors)")
        let wide = try await stage.run(["messages", "list"], columns: 300)
        #expect(wide.errors.isEmpty && wide.output.contains(id))
    }

    @Test("the middle of a text is cut, not its ends")
    func middle() {
        #expect(TerminalText.cutMiddle("abcdefghij", to: 10) == "abcdefghij")
        #expect(TerminalText.cutMiddle("abcdefghij", to: 7) == "abc…hij")
        #expect(TerminalText.cutMiddle("abcdefghij", to: 4) == "a…ij")
        for limit in 0...12 {
            #expect(TerminalText.width(TerminalText.cutMiddle("日本語日本語", to: limit)) <= limit)
            #expect(
                TerminalText.width(TerminalText.cutMiddle("e\u{301}e\u{301}e\u{301}abcdefgh\u{301}", to: limit))
                    <= limit
            )
        }
    }
}
