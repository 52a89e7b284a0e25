import ArgumentParser
import Foundation
package import UpstreamKit
import Vocabulary

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
        interruption: @escaping @Sendable () async -> Void = { await TerminationSignal.wait() }
    ) {
        self.console = console
        self.environment = environment
        self.programName = programName
        self.handlerSource = handlerSource
        self.interruption = interruption
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
    ///
    /// - Throws: ``CommandFailure`` with the error of the executable's code.
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

/// A command with an action, unlike a group of subcommands, which only shows its help.
protocol ProgramCommand: AsyncParsableCommand {
    func run(in context: CommandContext) async throws
}
