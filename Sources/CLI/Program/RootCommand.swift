import ArgumentParser

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
