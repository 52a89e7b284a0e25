import ArgumentParser
import Foundation

/// The program's commands and options, decoded from the parser's description.
package struct CommandTree: Decodable, Sendable {
    package struct Argument: Decodable, Sendable {
        package struct Name: Decodable, Sendable {
            /// `long`, `short` or `longWithSingleDash`.
            package var kind: String
            /// The name without dashes.
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
    /// Its long help text, examples first.
    package var discussion: String?
    package var subcommands: [CommandTree]?
    package var arguments: [Argument]?

    /// The program's commands.
    ///
    /// - Throws: If the parser's description has an unknown form.
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
