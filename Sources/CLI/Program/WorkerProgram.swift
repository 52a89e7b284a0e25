import ArgumentParser
import Glibc
import UpstreamKit
import Worker

/// The program, in whichever executable it is.
package enum WorkerProgram {
    /// Runs the process's command line; a failure ends the process with the command's exit code.
    ///
    /// - Parameter handlers: Makes the executable's own Swift handlers; called by the commands that need them.
    package static func main(handlers: @escaping CommandContext.HandlerSource = { [] }) async {
        // A reader that went away (`| head`) is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        let status = await run(Array(CommandLine.arguments.dropFirst()), in: .process(handlers: handlers))
        if status != 0 { exit(status) }
    }

    /// Runs one command line.
    ///
    /// No task local carries the context: in an optimised build `TaskLocal.withValue` around the commands crashed
    /// (Swift 6.3.1).
    ///
    /// - Parameters:
    ///   - arguments: The command line without the program's name.
    ///   - context: What the command gets from outside.
    /// - Returns: The exit code.
    package static func run(_ arguments: [String], in context: CommandContext) async -> Int32 {
        do {
            var command = try RootCommand.parseAsRoot(arguments)
            if let command = command as? any ProgramCommand {
                try await command.run(in: context)
            } else if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            return ExitStatus.ok.rawValue
        } catch {
            return report(error, in: context)
        }
    }

    /// Every command and group of commands, as it is typed after the program's name.
    package static var commands: [[String]] { paths(of: RootCommand.self, under: []) }

    private static func paths(of command: any ParsableCommand.Type, under path: [String]) -> [[String]] {
        command.configuration.subcommands.flatMap { subcommand in
            let path = path + [subcommand.configuration.commandName ?? ""]
            return [path] + paths(of: subcommand, under: path)
        }
    }

    /// Reports an error and returns its exit code: ours, or the parser's own; help and version are data.
    private static func report(_ error: any Error, in context: CommandContext) -> Int32 {
        if let failure = CommandFailure(error) {
            if !failure.message.isEmpty { context.console.message(failure.message) }
            return failure.status.rawValue
        }
        let text = RootCommand.fullMessage(for: error, columns: context.console.width)
        let status = RootCommand.exitCode(for: error)
        if !text.isEmpty {
            if status.isSuccess { context.console.data(text) } else { context.console.message(text) }
        }
        return status.rawValue
    }
}
