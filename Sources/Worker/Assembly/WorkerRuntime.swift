import Dispatcher
package import Logging
import NIOCore
import ServiceLifecycle
package import Telemetry
package import UpstreamConfiguration
package import UpstreamKit
import Vocabulary
import XMPPSession

/// A role of a worker process; several may share the work (`run --roles`).
package enum WorkerRole: String, CaseIterable, Sendable {
    /// Holds the connections, stores and acks.
    case receive
    /// Delivers stored messages to the handlers.
    case dispatch
}

/// A worker: its parts start by their dependencies and stop in reverse, so that streams can commit and ack (G7).
package final class WorkerRuntime: Sendable {
    private let parts: WorkerParts
    private let services: ServiceGroup
    private let supervisor: Supervisor
    /// Swift handlers, besides the configured ones.
    private let own: [HandlerRegistration]

    /// Makes a worker without connecting, or throws ``WorkerError/unusable(_:)``; `version` is for
    /// `upstream_build_info`.
    package init(
        configuration: WorkerConfiguration,
        handlers: [HandlerRegistration] = [],
        roles: Set<WorkerRole> = Set(WorkerRole.allCases),
        version: String,
        logger: Logger,
        manager: ServiceManager? = nil,
        onListening: @escaping @Sendable (Int) async -> Void = { _ in }
    ) throws(WorkerError) {
        own = handlers
        parts = try WorkerParts(configuration, own: handlers, roles: roles, version: version, logger: logger)
        let admin = AdminServer(
            configuration.admin,
            metrics: parts.metrics,
            readiness: parts.readiness,
            logger: logger,
            onListening: onListening
        )
        let assembled = parts.assemble(admin: admin, manager: manager)
        supervisor = assembled.supervisor
        services = ServiceGroup(
            configuration: ServiceGroupConfiguration(
                services: assembled.services.map { .init(service: LastingService(base: $0)) },
                logger: logger.forLibrary
            )
        )
    }

    package var metrics: Metrics { parts.metrics }

    package var readiness: Readiness { parts.readiness }

    /// Installs tracing for the process, if it is on: spans of Swift handlers then join those of the attempts.
    ///
    /// For a process that runs nothing else, before handlers are made.
    package func installTracing() { parts.tracing?.install() }

    /// Runs until ``shutDown()``, or until a part fails permanently, which throws a ``WorkerError``.
    package func run() async throws {
        defer { parts.group.shutdownGracefully { _ in } }
        parts.logger.event(.info, .starting, "starting", [.version: .string(metrics.version)])
        do {
            try await services.run()
        } catch let error as WorkerError {
            throw error
        } catch {
            throw WorkerError.failed("\(error)")
        }
        parts.logger.event(.info, .stopped, "stopped")
    }

    /// Whether a service was abandoned during shutdown because the database did not answer; don't wait for it.
    package var hasAbandonedServices: Bool { parts.abandoned.isFulfilled }

    /// Begins a graceful shutdown; ``run()`` returns at its end.
    package func shutDown() async {
        readiness.drain()
        supervisor.stopping(within: parts.configuration.shutdownGrace)
        await services.triggerGracefulShutdown()
    }

    /// Runs `body`, which reloads the configuration, and notifies the service manager.
    package func reload(_ body: () -> Void) { supervisor.reload(body) }

    /// Adopts what needs no restart from another configuration: the handlers' retry settings.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` if a worker could not be started with it; nothing is adopted then.
    package func adopt(_ configuration: WorkerConfiguration) throws(WorkerError) {
        try Self.validate(configuration, handlers: own, logger: parts.logger)
        for handler in configuration.handlers { _ = parts.dispatch?.service.adopt(handler.retry, of: handler.name) }
    }

    /// Closes the streams although messages wait to be committed, as the grace period is nearly over.
    ///
    /// Call it after ``shutDown()``; ``run()`` may never return.
    package func giveUp() {
        let inFlight = metrics.messages.snapshot().inFlight
        guard inFlight > 0, parts.environment.open.closeNow() > 0 else { return }
        parts.logger.event(
            .warning,
            .givingUp,
            "shutdown.grace is nearly over: closing the streams with messages that are not acked",
            [.count: .int(inFlight)]
        )
    }
}
