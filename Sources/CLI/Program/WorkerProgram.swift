import ArgumentParser
import Glibc
import Synchronization
package import UpstreamKit
import Worker

/// The program, in whoever's executable it is.
package enum WorkerProgram {
    /// Does what the command line says; a failure ends the process with the command's exit code.
    ///
    /// - Parameter handlers: The Swift handlers that the executable brings; asked for by the commands that need them.
    package static func main(handlers: @escaping OwnHandlers.Source = { [] }) async {
        // A reader that went away (`| head`) is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        OwnHandlers.source.withLock { $0 = handlers }
        do {
            var command = try RootCommand.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            CommandFailure.exit(error)
        }
    }

    /// What the executable is called.
    static var name: String {
        CommandLine.arguments.first?.split(separator: "/").last.map(String.init) ?? "upstream-worker"
    }
}

/// The Swift handlers that a team's own executable brings, beside those of the configuration.
package enum OwnHandlers {
    /// Makes them.
    package typealias Source = @Sendable () async throws -> [HandlerRegistration]

    /// Set once, before any command runs.
    ///
    /// No task local: in an optimised build `TaskLocal.withValue` around the commands crashed (Swift 6.3.1).
    static let source = Mutex<Source>({ [] })

    /// Makes them, for one worker.
    ///
    /// - Throws: ``CommandFailure`` with what the executable's code has thrown.
    static func make() async throws(CommandFailure) -> [HandlerRegistration] {
        let source = source.withLock(\.self)
        do {
            return try await source()
        } catch {
            throw CommandFailure(.configuration, "the handlers of this program can't be made: \(error)")
        }
    }
}
