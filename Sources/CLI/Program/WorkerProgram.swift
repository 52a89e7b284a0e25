import ArgumentParser
import Glibc
import Vocabulary

/// The entry point of every executable with the program's commands.
package enum WorkerProgram {
    /// Runs the process's command line; a failure ends the process with the command's exit code.
    ///
    /// - Parameter handlers: Makes the executable's own Swift handlers; called by commands that need them.
    package static func main(handlers: @escaping CommandContext.HandlerSource = { [] }) async {
        // A closed pipe (`| head`) is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        let status = await run(Array(CommandLine.arguments.dropFirst()), in: .process(handlers: handlers))
        if status != 0 { exit(status) }
    }

    /// Runs one command line without the program's name; returns the exit code.
    ///
    /// No task local carries the context: in an optimised build `TaskLocal.withValue` around the commands crashed
    /// (Swift 6.3.1).
    package static func run(_ arguments: [String], in context: CommandContext) async -> Int32 {
        do {
            if arguments.first == "help", let problem = try suggestion(context).unknownHelpTopic(arguments) {
                throw CommandFailure(.usage, problem)
            }
            var command = try RootCommand.parseAsRoot(CommandLineOrder.normalized(arguments))
            if let command = command as? any ProgramCommand {
                try await command.run(in: context)
            } else if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return ExitStatus.ok.rawValue
        } catch {
            return report(error, of: arguments, in: context)
        }
    }

    private static func suggestion(_ context: CommandContext) throws -> CommandSuggestion {
        try CommandSuggestion(programName: context.programName)
    }

    /// The parser's complaint about a command line; nil if it is valid.
    package static func problem(with arguments: [String]) -> String? {
        do {
            _ = try RootCommand.parseAsRoot(arguments)
            return nil
        } catch {
            return RootCommand.exitCode(for: error).isSuccess ? nil : RootCommand.message(for: error)
        }
    }

    /// Every command and group, as typed after the program's name.
    package static var commands: [[String]] { paths(of: RootCommand.self, under: []) }

    private static func paths(of command: any ParsableCommand.Type, under path: [String]) -> [[String]] {
        command.configuration.subcommands.flatMap { subcommand in
            let path = path + [subcommand.configuration.commandName ?? ""]
            return [path] + paths(of: subcommand, under: path)
        }
    }

    /// Reports an error and returns its exit code: ours, or the parser's; help and version are data.
    private static func report(_ error: any Error, of arguments: [String], in context: CommandContext) -> Int32 {
        if let failure = CommandFailure(error) {
            if !failure.message.isEmpty { context.console.message(failure.message) }
            return failure.status.rawValue
        }
        let console = context.console
        var text = RootCommand.fullMessage(for: error, columns: HelpLayout.unbroken)
        let status = RootCommand.exitCode(for: error)
        guard !text.isEmpty else { return status.rawValue }
        if status.isSuccess {
            console.data(HelpLayout.isHelp(text) ? HelpLayout.help(text, columns: console.width) : text)
            return status.rawValue
        }
        if let suggestion = try? suggestion(context) { text = suggestion.improve(text, for: arguments) }
        console.message(HelpLayout.error(text, columns: console.messageWidth))
        return status.rawValue
    }
}
