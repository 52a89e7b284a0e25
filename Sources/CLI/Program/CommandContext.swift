import ArgumentParser
import Foundation
package import UpstreamKit
import Worker

/// What a command gets from outside: its console, its environment, and the executable that it is part of.
package struct CommandContext: Sendable {
    /// Makes the Swift handlers that an executable brings, besides the configured ones.
    package typealias HandlerSource = @Sendable () async throws -> [HandlerRegistration]

    /// Where it reads and writes.
    package var console: Console
    /// The environment's variables.
    package var environment: [String: String]
    /// What the executable is called, for commands that are suggested.
    package var programName: String
    /// The executable's own handlers.
    package var handlerSource: HandlerSource
    /// Returns with the next SIGINT or SIGTERM, or when the task is cancelled.
    package var interruption: @Sendable () async -> Void

    /// A context.
    ///
    /// - Parameters:
    ///   - console: Where the command reads and writes.
    ///   - environment: The environment's variables.
    ///   - programName: What the executable is called.
    ///   - handlerSource: Makes the executable's own handlers.
    ///   - interruption: Returns when the command is to stop.
    package init(
        console: Console,
        environment: [String: String],
        programName: String = "upstream-worker",
        handlerSource: @escaping HandlerSource = { [] },
        interruption: @escaping @Sendable () async -> Void = { await TerminationSignal.wait() }
    ) {
        self.console = console
        self.environment = environment
        self.programName = programName
        self.handlerSource = handlerSource
        self.interruption = interruption
    }

    /// The process's own.
    static func process(handlers: @escaping HandlerSource) -> CommandContext {
        CommandContext(
            console: .standard,
            environment: ProcessInfo.processInfo.environment,
            programName: processName,
            handlerSource: handlers
        )
    }

    /// What the process's executable is called; help shows it.
    static var processName: String {
        CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "upstream-worker"
    }

    /// The executable's own handlers, for one worker.
    ///
    /// - Throws: ``CommandFailure`` with what the executable's code has thrown.
    func ownHandlers() async throws(CommandFailure) -> [HandlerRegistration] {
        do {
            return try await handlerSource()
        } catch {
            throw CommandFailure(.configuration, "this program's own handlers cannot be created: \(error)")
        }
    }

    /// A command line of this program, as messages suggest it.
    func suggestion(_ arguments: String) -> String { "\(programName) \(arguments)" }
}

/// A command that does something; a group of subcommands only shows its help.
protocol ProgramCommand: AsyncParsableCommand {
    /// Does it.
    func run(in context: CommandContext) async throws
}
