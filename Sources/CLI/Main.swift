import ArgumentParser
import Glibc

/// The program: a list of commands.
@main
struct UpstreamWorker: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "upstream-worker",
        abstract: "Receives upstream messages over XMPP and stores each one in PostgreSQL exactly once.",
        discussion: """
            Examples:
              upstream-worker dev                                   see it work, with nothing configured
              upstream-worker check --config worker.yaml --connect  look for mistakes
              upstream-worker migrate up                            make the tables
              upstream-worker run --config worker.yaml              receive, store, ack
            """,
        version: Version.current,
        subcommands: [
            RunCommand.self, DevCommand.self, MigrateCommand.self, CheckCommand.self, HandlersCommand.self,
            DeadCommand.self, EmulateCommand.self, BenchCommand.self,
        ]
    )

    static func main() async {
        // A reader that went away (`| head`) is an error of the write, not the end of the process.
        signal(SIGPIPE, SIG_IGN)
        do {
            var command = try parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
        } catch {
            CommandFailure.exit(error)
        }
    }
}
