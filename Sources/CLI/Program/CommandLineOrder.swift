import ArgumentParser

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
