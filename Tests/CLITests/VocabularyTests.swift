import CLI
import Testing

@Suite("one vocabulary for all commands")
struct VocabularyTests {
    /// Every command that runs, with the words that people type for it.
    private static func commands() throws -> [(path: String, command: CommandTree)] {
        func walk(_ tree: CommandTree, _ path: [String]) -> [(String, CommandTree)] {
            let children = tree.children.flatMap { walk($0, path + [$0.commandName]) }
            return children.isEmpty ? [(path.joined(separator: " "), tree)] : children
        }
        return walk(try CommandTree.program(), [])
    }

    /// What narrows a selection, and is called the same wherever it can be given.
    private static let filters: Set<String> = [
        "--category", "--sender", "--device", "--from-token-file", "--message-id", "--message-key", "--since",
        "--until",
        "--where", "--handler", "--group", "--reason", "--limit", "--after", "--columns", "--only-failed",
        "--fingerprint", "--state",
    ]

    @Test("an option that selects has a name of the vocabulary")
    func filterNames() throws {
        for (path, command) in try Self.commands() where !["emulate", "bench"].contains(path) {
            for argument in command.arguments ?? [] where argument.kind != "positional" && argument.shouldDisplay {
                let selects = ["Only ", "Received ", "First received ", "Died "]
                guard let abstract = argument.abstract, selects.contains(where: abstract.hasPrefix) else { continue }
                // "Only print what would be done" selects nothing.
                guard !["--dry-run", "--changed"].contains(argument.names?.last?.text) else { continue }
                for name in argument.names ?? [] where name.kind == "long" {
                    #expect(Self.filters.contains(name.text), "\(path) \(name.text): \(abstract)")
                }
            }
        }
    }

    @Test(
        "names that other commands have for the same are hidden",
        arguments: ["--from", "--before", "--to-time", "--message"]
    )
    func formerNames(_ name: String) throws {
        for (path, command) in try Self.commands() { #expect(!command.optionNames().contains(name), "\(path) \(name)") }
    }

    @Test("who takes --since takes --until, and the other way round")
    func times() throws {
        var count = 0
        for (path, command) in try Self.commands() {
            let names = command.optionNames()
            #expect(names.contains("--since") == names.contains("--until"), "\(path)")
            if names.contains("--since") { count += 1 }
        }
        #expect(count >= 10)
    }

    @Test("a list takes every format, --columns and --reverse")
    func lists() throws {
        let lists = try Self.commands().filter { path, _ in
            path.hasSuffix(" list") || ["dead groups", "replay status"].contains(path)
        }
        #expect(lists.count >= 6)
        for (path, command) in lists {
            let missing = Set(["--table", "--json", "--ndjson", "--csv", "--columns", "--reverse"])
                .subtracting(command.optionNames())
            #expect(missing.isEmpty, "\(path): \(missing)")
        }
    }

    @Test("a name is an option or a flag, and the same one everywhere")
    func kinds() throws {
        var kinds: [String: String] = [:]
        for (path, command) in try Self.commands() {
            for argument in command.arguments ?? [] {
                // A flag of `dev` with one script, and any script of `emulate`.
                for name in argument.names ?? [] where name.text != "--faults" {
                    #expect(kinds[name.text, default: argument.kind] == argument.kind, "\(path) \(name.text)")
                    kinds[name.text] = argument.kind
                }
            }
        }
        #expect(kinds["--config"] == "option" && kinds["--json"] == "flag")
    }

    @Test("the names that options had before still work")
    func aliases() {
        let commands = [
            ["dead", "list", "--before", "1d"], ["dead", "list", "--message", "x"],
            ["forget", "--from-token-file", "x"], ["messages", "list", "--token-file", "x"],
            ["messages", "list", "--with-tokens"], ["messages", "export", "--reveal"],
        ]
        for command in commands { #expect(WorkerProgram.problem(with: command) == nil, "\(command)") }
    }
}
