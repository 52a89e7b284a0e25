import ArgumentParser
import Foundation
import Glibc
package import UpstreamKit
import Vocabulary

/// The entry point of every executable with the program's commands.
package enum WorkerProgram {
    /// Runs the process's command line; a failure ends the process with the command's exit code.
    ///
    /// - Parameter handlers: Makes the executable's own Swift handlers; called by commands that need them.
    package static func main(handlers: @escaping CommandContext.HandlerSource = { [] }) async {
        // A closed pipe (`| head`) is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        DescriptorLimit.raise()
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
            try context.console.requireWritten()
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

struct RootCommand: AsyncParsableCommand {
    static var configuration: CommandConfiguration {
        CommandConfiguration(
            commandName: CommandContext.processName,
            abstract: "Receives upstream messages over XMPP and stores each one in PostgreSQL exactly once.",
            discussion: """
                Examples:
                  upstream-worker dev                          # try it, nothing configured
                  upstream-worker check --config worker.yaml   # find mistakes
                  upstream-worker migrate up                   # create the tables
                  upstream-worker run --config worker.yaml     # receive, store, ack
                """,
            version: Version.text,
            subcommands: [
                RunCommand.self, DevCommand.self, MigrateCommand.self, CheckCommand.self, ConfigCommand.self,
                HandlersCommand.self,
                DeadCommand.self, MessagesCommand.self, QuarantineCommand.self, ConflictsCommand.self,
                ReplayCommand.self, PartitionsCommand.self, ForgetCommand.self, StatsCommand.self,
                ConsoleCommand.self, EmulateCommand.self, BenchCommand.self,
                DoctorCommand.self, AuditCommand.self, DeliveriesCommand.self,
            ]
        )
    }
}

/// A command's environment: console, variables, and the executable it is part of.
package struct CommandContext: Sendable {
    /// Makes an executable's own Swift handlers, besides the configured ones.
    package typealias HandlerSource = @Sendable () async throws -> [HandlerRegistration]

    package var console: Terminal
    package var environment: [String: String]
    package var programName: String
    package var handlerSource: HandlerSource
    /// Returns with the next SIGINT or SIGTERM, or when the task is cancelled.
    package var interruption: @Sendable () async -> Void

    package init(
        console: Terminal,
        environment: [String: String],
        programName: String = "upstream-worker",
        handlerSource: @escaping HandlerSource = { [] },
        interruption: @escaping @Sendable () async -> Void = { await Shutdown.signalled() }
    ) {
        (self.console, self.environment, self.programName) = (console, environment, programName)
        (self.handlerSource, self.interruption) = (handlerSource, interruption)
    }

    static func process(handlers: @escaping HandlerSource) -> CommandContext {
        CommandContext(
            console: .standard,
            environment: ProcessInfo.processInfo.environment,
            programName: processName,
            handlerSource: handlers
        )
    }

    /// The name of this executable, for help texts.
    static var processName: String {
        CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "upstream-worker"
    }

    /// Makes the executable's own handlers for one worker.
    func ownHandlers() async throws(CommandFailure) -> [HandlerRegistration] {
        do {
            return try await handlerSource()
        } catch {
            throw CommandFailure(.configuration, "this program's own handlers cannot be created: \(error)")
        }
    }

    /// A command line of this program, for suggestions.
    func suggestion(_ arguments: String) -> String { "\(programName) \(arguments)" }
}

typealias Subcommands = [any ParsableCommand.Type]

/// A command, or a group of them, with its help as one text.
protocol DescribedCommand: AsyncParsableCommand {
    /// Its name and what it does, as `name: text.`; the lines after that are examples, then come further paragraphs.
    static var manual: String { get }
    static var subcommands: Subcommands { get }
    /// Whether the help of the group names it.
    static var isShown: Bool { get }
}

extension DescribedCommand {
    static var subcommands: Subcommands { [] }
    static var isShown: Bool { true }

    static var configuration: CommandConfiguration {
        let name = manual.prefix { $0 != ":" }
        let text = manual.dropFirst(name.count + 2)
        let abstract = text.prefix { $0 != "\n" }
        return CommandConfiguration(
            commandName: String(name),
            abstract: String(abstract),
            discussion: "Examples:" + text.dropFirst(abstract.count),
            shouldDisplay: isShown,
            subcommands: subcommands
        )
    }
}

/// A command with an action, unlike a group of subcommands, which only shows its help.
protocol ProgramCommand: DescribedCommand {
    func run(in context: CommandContext) async throws
}
