import CLI
import Testing

@Suite("help")
struct HelpTests {
    @Test("no line of any help is wider than the terminal", arguments: [[]] + WorkerProgram.commands)
    func width(_ command: [String]) async throws {
        for columns in [80, 100, 132] {
            let run = try await FakeTerminal(columns: columns).run(command + ["--help"])
            for line in run.output.split(separator: "\n") where line.count > columns {
                Issue.record("\(command) at \(columns): \(line)")
            }
        }
    }

    @Test(
        "each example can be copied: it is on lines of its own, and the parser takes it",
        arguments: [[]] + WorkerProgram.commands
    )
    func examples(_ command: [String]) async throws {
        let help = try await FakeTerminal(columns: 80).run(command + ["--help"]).output
        let examples = ShellExample.examples(in: help)
        #expect(!examples.isEmpty, "\(command)")
        var own = 0
        for example in examples {
            for words in ShellExample(example).commands where words.first == "upstream-worker" {
                let arguments = Array(words.dropFirst())
                if arguments.starts(with: command) { own += 1 }
                #expect(WorkerProgram.problem(with: arguments) == nil, "\(example)")
            }
        }
        #expect(own > 0, "\(command) shows no example of itself")
    }

    @Test("the same help is shown where it is piped")
    func piped() async throws {
        let piped = try await FakeTerminal(columns: nil).run(["replay", "plan", "--help"])
        #expect(piped.output == (try await FakeTerminal(columns: 80).run(["replay", "plan", "--help"]).output))
    }

    @Test("examples are split as a shell does it")
    func shell() {
        let line = #"A=b upstream-worker x --where 'data.a > 1' "b c" > out.csv | jq '.[]' # note"#
        #expect(
            ShellExample(line).commands == [
                ["upstream-worker", "x", "--where", "data.a > 1", "b c"], ["jq", ".[]"],
            ]
        )
        let help = "Examples:\n  a b \\\n    c\n  d |\n    e\n\n  f"
        #expect(ShellExample.examples(in: help) == ["a b c", "d |e"])
    }

    @Test("neither the version nor a completion script is laid out as help")
    func data() async throws {
        let terminal = FakeTerminal(columns: 40)
        let script = try await terminal.run(["--generate-completion-script", "bash"]).output
        #expect(script.hasPrefix("#!/bin/bash") && script.split(separator: "\n").contains { $0.count > 100 })
        #expect(try CommandTree.program().children.count > 10)
    }
}
