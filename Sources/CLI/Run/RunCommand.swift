import ArgumentParser
import UpstreamConfiguration
import Vocabulary
import Worker

struct RunCommand: ProgramCommand {
    static let manual = """
        run: Receives, stores and acks, until SIGTERM or SIGINT.
          upstream-worker run --config worker.yaml
          UPSTREAM_LOG__LEVEL=debug upstream-worker run
          upstream-worker run --roles dispatch   # only run handlers; others receive

        The first signal shuts down in order: messages that were read are stored and acked, then the streams are \
        closed. A second signal exits at once. SIGHUP reads the configuration again: log.level and the handlers' \
        retry settings take effect, and the log names the keys that need a restart.
        """

    @OptionGroup var options: CommonOptions
    @Option(help: "What this process does: receive, dispatch, or both.") var roles = "receive,dispatch"

    func run(in context: CommandContext) async throws {
        Shutdown.ignoreHangups()
        let roles = try Self.roles(roles)
        let (options, needsSenders) = (options, roles.contains(.receive))
        let loaded = try options.load(context, needsSenders: needsSenders)
        let configuration = loaded.configuration
        let (logger, threshold) = ProgramLog.start(configuration)
        let runtime = try WorkerRuntime(
            configuration: configuration,
            handlers: try await context.ownHandlers(),
            roles: roles,
            version: Version.current,
            logger: logger,
            manager: ServiceManager(environment: context.environment)
        )
        runtime.installTracing()
        let reloader = Reloader(running: loaded, threshold: threshold, logger: logger) {
            try options.load(context, needsSenders: needsSenders)
        } adopt: {
            try runtime.adopt($0)
        }
        try await Shutdown.onSignal(grace: configuration.shutdownGrace, logger: logger) {
            try await runtime.run()
        } begin: {
            await runtime.shutDown()
        } giveUp: {
            runtime.giveUp()
        } reload: {
            runtime.reload { reloader.reload() }
        }
        // Remaining work waits for a database that does not answer: don't wait for it.
        if runtime.hasAbandonedServices { Shutdown.endAtOnce(ExitStatus.ok.rawValue) }
    }

    private static func roles(_ list: String) throws -> Set<WorkerRole> {
        let roles = try list.split(separator: ",").map { name in
            guard let role = WorkerRole(rawValue: String(name)) else {
                throw ValidationError("--roles takes receive, dispatch, or both with a comma, not '\(name)'")
            }
            return role
        }
        guard !roles.isEmpty else { throw ValidationError("--roles must name at least one role") }
        return Set(roles)
    }
}
