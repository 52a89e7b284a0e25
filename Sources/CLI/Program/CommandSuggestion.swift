import ArgumentParser
import Foundation
import Vocabulary

struct CommandSuggestion {
    private let root: CommandTree
    private let programName: String

    /// Option names of other programs, and their names here.
    private static let synonyms = [
        "--from": "--since", "--start": "--since", "--newer": "--since", "--newer-than": "--since",
        "--before": "--until", "--end": "--until", "--older": "--until", "--older-than": "--until", "--to": "--until",
        "--max": "--limit", "--count": "--limit", "--lines": "--limit", "--number": "--limit", "--tail": "--limit",
        "--key": "--message-key", "--id": "--message-id", "--cat": "--category", "--type": "--category",
        "--file": "--output", "--out": "--output", "--force": "--yes", "--confirm": "--yes",
        "--message": "--message-key",
        "--pretty": "--table", "--jsonl": "--ndjson", "--fields": "--columns", "--filter": "--where",
        "--configuration": "--config", "--conf": "--config", "--option": "--set", "--tokens": "--reveal",
    ]

    init(programName: String) throws {
        root = try CommandTree.program()
        self.programName = programName
    }

    /// Adds a suggestion to the parser's error text, if there is one.
    func improve(_ text: String, for arguments: [String]) -> String {
        let walk = walk(arguments)
        if let unknown = walk.unknown { return error(unknown, in: walk) }
        let head = String(text.prefix { $0 != "\n" })
        let rest = String(text.dropFirst(head.count))
        if let match = head.firstMatch(of: /^Error: Unknown option '(--?[^'= ]+)[^']*'/) {
            return "Error: unknown option '\(match.1)'" + hint(String(match.1), walk.group) + rest
        }
        if let match = head.firstMatch(of: /^Error: Unexpected argument '(.+)'$/) {
            return "Error: unexpected argument '\(match.1)'" + hint(argument: String(match.1), walk.group) + rest
        }
        return text
    }

    /// The error for help on an unknown command; nil for a known one.
    func unknownHelpTopic(_ arguments: [String]) -> String? {
        guard arguments.first == "help" else { return nil }
        let walk = walk(Array(arguments.dropFirst()))
        return walk.unknown.map { error($0, in: walk) }
    }

    /// How far a command line names known commands.
    private struct Walk {
        var path: [String] = []
        /// The last known command.
        var group: CommandTree
        /// The first unknown name.
        var unknown: String?
        /// Further names, which may be commands.
        var rest: [String] = []
    }

    private func walk(_ arguments: [String]) -> Walk {
        var walk = Walk(group: root)
        var words = arguments[...]
        while let word = words.first, !walk.group.children.isEmpty {
            let length = CommandLineOrder.length(of: words)
            words = words.dropFirst(max(1, length))
            if length > 0 || word.hasPrefix("-") || (word == "help" && walk.path.isEmpty) { continue }
            guard let next = walk.group.children.first(where: { $0.commandName == word }) else {
                walk.unknown = word
                walk.rest = words.filter { !$0.hasPrefix("-") }
                break
            }
            walk.path.append(word)
            walk.group = next
        }
        return walk
    }

    /// Repeats only names of commands: other words may be private.
    private func error(_ unknown: String, in walk: Walk) -> String {
        let place = ([programName] + walk.path).joined(separator: " ")
        let known = walk.group.children.filter { $0.shouldDisplay ?? true }.map(\.commandName)
        var lines = ["Error: '\(unknown.prefix(60))' is not a command of \(place)"]
        if let nearest = Suggestion.nearest(to: unknown, among: known) ?? known.first(where: { $0 == unknown + "s" }) {
            lines[0] += ". Did you mean '\(nearest)'?"
            let next = walk.group.children.first { $0.commandName == nearest }?.children.map(\.commandName) ?? []
            let behind = walk.rest.first.flatMap { next.contains($0) ? $0 : Suggestion.nearest(to: $0, among: next) }
            lines.append("  \(([place, nearest] + [behind].compactMap(\.self)).joined(separator: " "))")
        } else if case let elsewhere = elsewhere(unknown), (1...3).contains(elsewhere.count) {
            lines[0] += elsewhere.count == 1 ? ". Did you mean this?" : ". Did you mean one of these?"
            lines += elsewhere.map { "  \(programName) \($0)" }
        } else {
            lines.append("Commands: \(known.joined(separator: ", "))")
        }
        lines.append("  See '\(place) --help' for more information.")
        return lines.joined(separator: "\n")
    }

    /// The paths of the commands of this name in other groups.
    private func elsewhere(_ name: String) -> [String] {
        root.children.filter { $0.children.contains { $0.commandName == name } }.map { "\($0.commandName) \(name)" }
    }

    private func hint(_ option: String, _ command: CommandTree) -> String {
        let known = command.optionNames().filter { $0 != option }
        if let synonym = Self.synonyms[option.lowercased()], known.contains(synonym) {
            return ". Did you mean '\(synonym)'?"
        }
        let long = known.filter { $0.hasPrefix("--") }
        return Suggestion.nearest(to: option, among: option.hasPrefix("--") ? long : known + long)
            .map { ". Did you mean '\($0)'?" } ?? ""
    }

    private func hint(argument: String, _ command: CommandTree) -> String {
        let isFile = argument.hasSuffix(".yaml") || argument.hasSuffix(".yml")
        guard isFile, command.optionNames().contains("--config") else { return "" }
        return ". Did you mean '--config \(argument)'?"
    }
}

/// The program's commands and options, decoded from the parser's description.
package struct CommandTree: Decodable, Sendable {
    package struct Argument: Decodable, Sendable {
        package struct Name: Decodable, Sendable {
            /// `long`, `short` or `longWithSingleDash`.
            package var kind: String
            package var name: String
            /// The name with its dashes.
            package var text: String { (kind == "long" ? "--" : "-") + name }
        }

        /// `positional`, `option` or `flag`.
        package var kind: String
        package var shouldDisplay: Bool
        /// Its names; nil for an argument.
        package var names: [Name]?
        package var abstract: String?
    }

    package var commandName: String
    package var shouldDisplay: Bool?
    package var subcommands: [CommandTree]?
    package var arguments: [Argument]?

    package static func program() throws -> CommandTree { try described.get() }

    private static let described = Result {
        struct Tool: Decodable { var command: CommandTree }
        return try JSONDecoder().decode(Tool.self, from: Data(RootCommand._dumpHelp().utf8)).command
    }

    /// The subcommands, without the parser's own `help`.
    package var children: [CommandTree] { (subcommands ?? []).filter { $0.commandName != "help" } }

    /// The names of its options and flags, with their dashes.
    package func optionNames(hidden: Bool = false) -> [String] {
        (arguments ?? []).filter { hidden || $0.shouldDisplay }.flatMap { $0.names ?? [] }.map(\.text)
    }
}

/// Moves leading options behind the command: `upstream-worker --config FILE run`.
///
/// The parser accepts a command's options only after its name; other programs accept common ones before it, too.
enum CommandLineOrder {
    /// The options that may come first; each takes a value.
    private static let movable = ["--config", "-c", "--set"]

    /// The command line with these options moved behind the command's name.
    static func normalized(_ arguments: [String]) -> [String] {
        var moved: [String] = []
        var path: [String] = []
        var command: any ParsableCommand.Type = RootCommand.self
        var index = 0
        while index < arguments.count, !command.configuration.subcommands.isEmpty {
            let count = length(of: arguments[index...])
            if count > 0 {
                moved += arguments[index..<(index + count)]
                index += count
            } else if let next = command.configuration.subcommands.first(where: { $0.name == arguments[index] }) {
                path.append(arguments[index])
                command = next
                index += 1
            } else {
                break
            }
        }
        let isComplete = command.configuration.subcommands.isEmpty
        return isComplete && !moved.isEmpty ? path + moved + arguments[index...] : arguments
    }

    /// The number of words of the movable option at the start, 0 if there is none.
    static func length(of words: ArraySlice<String>) -> Int {
        guard let first = words.first else { return 0 }
        if movable.contains(first) { return min(2, words.count) }
        return movable.contains { first.hasPrefix($0 + "=") } ? 1 : 0
    }
}

extension ParsableCommand {
    static var name: String { configuration.commandName ?? "" }
}
