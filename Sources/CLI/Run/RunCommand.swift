import ArgumentParser
import Worker

/// `run`: the worker.
struct RunCommand: ProgramCommand {
    static let configuration = CommandConfiguration(
        commandName: "run",
        abstract: "Receives, stores and acks, until SIGTERM or SIGINT.",
        discussion: """
            Examples:
              upstream-worker run --config worker.yaml
              UPSTREAM_LOG__LEVEL=debug upstream-worker run
              upstream-worker run --roles dispatch         only run handlers; other workers receive

            The first signal shuts down in order: messages that were read are stored and acked, then the streams are \
            closed. A second signal exits at once.
            """
    )

    @OptionGroup var options: CommonOptions
    @Option(help: "What this process does: receive, dispatch, or both.")
    var roles = "receive,dispatch"

    func run(in context: CommandContext) async throws {
        let roles = try Self.roles(roles)
        let configuration = try options.load(context, needsSenders: roles.contains(.receive)).configuration
        let logger = ProgramLog.start(configuration)
        let runtime = try WorkerRuntime(
            configuration: configuration,
            handlers: try await context.ownHandlers(),
            roles: roles,
            version: Version.current,
            logger: logger
        )
        try await Shutdown.onSignal(grace: configuration.shutdownGrace, logger: logger) {
            try await runtime.run()
        } begin: {
            await runtime.shutDown()
        } giveUp: {
            runtime.giveUp()
        }
        // Work that is left waits for a database that does not answer: do not wait for it.
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
