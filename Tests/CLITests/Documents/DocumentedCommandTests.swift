import CLI
import Foundation
import Testing

/// The commands in documents and units, read by the real parser: a mistyped option there fails here.
@Suite("documented commands")
struct DocumentedCommandTests {
    private static let pages = try? MarkdownPage.paths([
        "README.md", "CONTRIBUTING.md", "SECURITY.md", "deploy/README.md", "docs", "Examples",
    ])

    /// What stands for a value in documents, and a value of that kind.
    private static let placeholders = [
        "KEY": "476f5800-1c45-89ec-50b6-c4a09f5e62c1", "NAME": "name", "FILE": "file", "ID": "17",
    ]

    /// What the parser says against a command's words; nil where it takes them.
    private func problem(_ words: some Sequence<String>) -> String? {
        WorkerProgram.problem(with: words.map { Self.placeholders[$0] ?? $0 })
    }

    @Test("each command in a block is one that the parser takes", arguments: try #require(Self.pages))
    func blocks(_ path: String) throws {
        for block in try MarkdownPage(path).blocks {
            for line in ShellExample.lines(of: block.lines) {
                let commands = ShellExample(line).commands
                for command in commands where command.first == "upstream-worker" {
                    if let problem = problem(command.dropFirst()) {
                        Issue.record("\(block.testDescription): \(problem)")
                    }
                }
                // What runs another command, and isn't known to ShellExample, would hide it.
                for command in commands {
                    let hidden = zip(command.dropFirst(), command.dropFirst(2)).first { word, next in
                        word.hasSuffix("upstream-worker") && WorkerProgram.commands.contains([next])
                    }
                    #expect(hidden == nil, "\(block.testDescription): what runs upstream-worker here? \(command)")
                }
            }
        }
    }

    @Test("each command in a sentence is one, with options that it has", arguments: try #require(Self.pages))
    func sentences(_ path: String) throws {
        for span in try MarkdownPage(path).spans where !span.contains("…") {
            guard let command = ShellExample(span.replacing("|", with: "\u{0}")).commands.first else { continue }
            let isNamed = command[0] == "upstream-worker"
            var words = Array(isNamed ? command.dropFirst() : command[...])
            // `run` alone, or `stats`, is as often something else.
            guard words.count > 1 || isNamed, let first = words.first, first.hasPrefix("-") || isCommand([first])
            else { continue }
            // Of a command with subcommands or with an option, not of a table, say.
            guard
                isNamed || words[1].hasPrefix("--")
                    || WorkerProgram.commands.contains(where: { $0.count > 1 && $0[0] == first })
            else { continue }
            let ways = words.count > 1 ? words[1].split(separator: "\u{0}").map(String.init) : [""]
            for way in ways {
                if words.count > 1 { words[1] = way }
                guard let problem = problem(words), !problem.hasPrefix("Missing ") else { continue }
                Issue.record("\(path): `\(span)`: \(problem)")
            }
        }
    }

    private func isCommand(_ words: [String]) -> Bool { WorkerProgram.commands.contains(words) }

    @Test("each command that a unit starts is one")
    func units() throws {
        let folder = MarkdownPage.root.appending(path: "deploy")
        var count = 0
        for unit in try FileManager.default.contentsOfDirectory(atPath: folder.path) where unit.hasSuffix(".service") {
            let text = try String(contentsOf: folder.appending(path: unit), encoding: .utf8)
            for line in text.split(separator: "\n") where line.hasPrefix("Exec") && line.contains("/upstream-worker ") {
                let words = line.split(separator: " ").dropFirst().map(String.init)
                #expect(problem(words) == nil, "\(unit): \(line)")
                count += 1
            }
        }
        #expect(count >= 2)
    }

    @Test("a mistyped option, a hidden command and a sentence are seen")
    func seen() throws {
        let block = [
            "$ sudo -u a env B=c upstream-worker run --roles x # all", "upstream-worker none",
            "$ while upstream-worker \\",
            "    stats --wach; do sleep 1; done",
        ]
        let commands = ShellExample.lines(of: block).flatMap { ShellExample($0).commands }
        #expect(
            commands.filter { $0.first == "upstream-worker" } == [
                ["upstream-worker", "run", "--roles", "x"], ["upstream-worker", "stats", "--wach"],
            ]
        )
        #expect(problem(["stats", "--wach"]) != nil && problem(["stats", "--watch"]) == nil)
    }
}
