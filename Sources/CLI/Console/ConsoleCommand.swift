import ArgumentParser
import Console
import Postgres
import Worker

/// `console`: the page and the HTTP API.
struct ConsoleCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "console",
        abstract: "Serves a web page and an HTTP API over what is stored.",
        discussion: """
            Examples:
              upstream-worker console --config worker.yaml
            """
    )

    @OptionGroup var options: CommonOptions

    func run(in context: CommandContext) async throws {
        let configuration = try options.load(context, needsSenders: false).configuration
        let logger = ProgramLog.start(configuration)
        let settings = try PostgresSettings(url: configuration.database.url)
        let services = ConsoleServices(
            reader: ReadPool(settings, size: 4),
            writer: ReadPool(settings, size: 2, isReadOnly: false),
            settings: ConsoleSettings(version: Version.current),
            logger: logger
        )
        let server = try ConsoleServer(
            .tcp(host: "127.0.0.1", port: 9465),
            services: services,
            access: try ConsoleAccess(ConsoleAccess.Settings(), logger: logger)
        )
        try await server?.run()
    }
}
