import ArgumentParser
import Console
import Foundation
import UpstreamConfiguration
import Worker

struct ConsoleCommand: ProgramCommand {
    static let manual = """
        console: Serves a web page and an HTTP API over what is stored, until SIGTERM or SIGINT.
          upstream-worker console --config worker.yaml
          upstream-worker console --set console.listen=127.0.0.1:8080
          curl -H @token-header http://127.0.0.1:9465/api/v1/messages?limit=2

        The file token-header holds the line `Authorization: Bearer TOKEN`.

        Who may do what is configured: console.tokens (files with a token each) or console.proxy. Without either \
        it listens on loopback only; whoever reaches it there may look, and a link that is printed on the terminal \
        lets one person act. It reads the parts `database` and `console` of the configuration, and needs no \
        sender's key. Its database role can be its own: console.database.url. SIGHUP reads log.level again; files of \
        tokens are read every few seconds.
        """

    @OptionGroup var options: CommonOptions

    func run(in context: CommandContext) async throws {
        Shutdown.ignoreHangups()
        let options = options
        let loaded = try options.load(context, needsSenders: false, parts: [.console])
        let configuration = loaded.configuration
        let (logger, threshold) = ProgramLog.start(configuration)
        let supervisor = Supervisor(
            manager: ServiceManager(environment: context.environment),
            watch: .ofSharedLoops,
            status: { "serving" },
            logger: logger
        )
        let reloader = Reloader(running: loaded, threshold: threshold, logger: logger) {
            try options.load(context, needsSenders: false, parts: [.console])
        }
        let (ports, port) = AsyncStream<Int>.makeStream()
        let runtime = try ConsoleRuntime(configuration, version: Version.current, logger: logger) {
            supervisor.started()
            port.yield($0)
        }
        try await Shutdown.onSignal(grace: configuration.shutdownGrace, logger: logger) {
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await supervisor.run() }
                group.addTask {
                    for await port in ports { Self.announce(runtime, port: port, context.console) }
                }
                try await runtime.run()
                group.cancelAll()
            }
        } begin: {
            supervisor.stopping(within: configuration.shutdownGrace)
            await runtime.shutDown()
        } reload: {
            supervisor.reload { reloader.reload() }
        }
    }

    /// Prints the addresses; the sign-in link only on a terminal: in a log, others would find it.
    private static func announce(_ runtime: ConsoleRuntime, port: Int, _ console: Terminal) {
        console.message("console     \(runtime.address(port: port))")
        guard runtime.isOpen, console.errors.isTerminal else { return }
        let you = Principal(name: "local:" + NSUserName(), role: .operator_)
        console.message("to act      \(runtime.oneTimeAddress(port: port, for: you))  (once, within 10 minutes)")
    }
}
