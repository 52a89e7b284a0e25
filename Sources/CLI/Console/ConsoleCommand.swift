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
        let pool = ReadPool(try PostgresSettings(url: configuration.database.url), size: 4)
        let server = ConsoleServer(.tcp(host: "127.0.0.1", port: 9465), pool: pool, logger: logger)
        try await server?.run()
    }
}
