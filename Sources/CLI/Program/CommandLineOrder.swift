import ArgumentParser

/// Options in front of a command: `upstream-worker --config FILE run`.
///
/// The parser takes a command's options only behind its name. Those that nearly every command has are moved there, as
/// people know it from other programs.
enum CommandLineOrder {
    /// The options that may stand in front; each takes a value.
    private static let movable = ["--config", "-c", "--set"]

    /// The command line with these options behind the command's name.
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

    /// How many words the option takes with which the words begin; 0 where they begin with something else.
    static func length(of words: ArraySlice<String>) -> Int {
        guard let first = words.first else { return 0 }
        if movable.contains(first) { return min(2, words.count) }
        return movable.contains { first.hasPrefix($0 + "=") } ? 1 : 0
    }
}

extension ParsableCommand {
    /// How the command is called.
    static var name: String { configuration.commandName ?? "" }
}
