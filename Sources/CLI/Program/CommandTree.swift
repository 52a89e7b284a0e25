import ArgumentParser
import Foundation

/// The program's commands with their options, as the parser describes them.
package struct CommandTree: Decodable, Sendable {
    /// An option, a flag or an argument.
    package struct Argument: Decodable, Sendable {
        /// One of its names.
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
        /// Whether help shows it.
        package var shouldDisplay: Bool
        /// Its names; nil for an argument.
        package var names: [Name]?
        /// What help says about it.
        package var abstract: String?
    }

    /// How the command is called.
    package var commandName: String
    /// Whether help shows it.
    package var shouldDisplay: Bool?
    /// What help says about it, examples first.
    package var discussion: String?
    /// Its own subcommands; nil where it has none.
    package var subcommands: [CommandTree]?
    /// What it takes.
    package var arguments: [Argument]?

    /// The commands of the program.
    ///
    /// - Throws: Where the parser describes them in a form that is not known.
    package static func program() throws -> CommandTree { try described.get() }

    private static let described = Result {
        struct Tool: Decodable { var command: CommandTree }
        return try JSONDecoder().decode(Tool.self, from: Data(RootCommand._dumpHelp().utf8)).command
    }

    /// The subcommands that people type; the parser's own `help` is no command of the program.
    package var children: [CommandTree] { (subcommands ?? []).filter { $0.commandName != "help" } }

    /// The names of its options and flags, with their dashes.
    package func optionNames(hidden: Bool = false) -> [String] {
        (arguments ?? []).filter { hidden || $0.shouldDisplay }.flatMap { $0.names ?? [] }.map(\.text)
    }
}
