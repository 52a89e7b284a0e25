import Handlers
import Logging
import Querying
package import UpstreamConfiguration
import UpstreamKit

package enum HandlerFactory {
    /// The registrations of all configured handlers, then of the program's own; names are unique among all.
    ///
    /// `gathered` is the logger of handlers that log every message, by default the same.
    /// Throws ``WorkerError/unusable(_:)`` with every handler that can't be made, and why.
    static func registrations(
        _ configurations: [HandlerConfiguration],
        and own: [HandlerRegistration],
        logger: Logger,
        gathered: Logger? = nil
    ) throws(WorkerError) -> [HandlerRegistration] {
        var problems: [String] = []
        let made = configurations.enumerated().compactMap { index, configuration -> HandlerRegistration? in
            do throws(HandlerProblem) {
                return try registration(configuration, logger: logger, gathered: gathered ?? logger)
            } catch {
                problems.append(error.text(at: index))
                return nil
            }
        }
        var registry = HandlerRegistry()
        for registration in made + own {
            do throws(RegistrationError) { try registry.add(registration) } catch { problems.append("\(error)") }
        }
        guard problems.isEmpty else { throw .unusable(problems) }
        return registry.registrations
    }

    /// Tries what could bring the worker down at its start, such as loading the libraries of plugins.
    ///
    /// - Throws: ``WorkerError/unusable(_:)`` with every handler that can't be used, and why.
    package static func tryOut(_ configurations: [HandlerConfiguration]) async throws(WorkerError) {
        var problems: [String] = []
        for (index, configuration) in configurations.enumerated() {
            do throws(HandlerProblem) {
                try await configuration.kind.tryOut()
            } catch {
                problems.append(error.text(at: index))
            }
        }
        guard problems.isEmpty else { throw .unusable(problems) }
    }

    private static func registration(
        _ configuration: HandlerConfiguration,
        logger: Logger,
        gathered: Logger
    ) throws(HandlerProblem) -> HandlerRegistration {
        let common = HandlerCommon(
            name: configuration.name,
            concurrency: configuration.concurrency,
            logger: logger,
            gathered: gathered
        )
        var registration = HandlerRegistration(
            name: configuration.name,
            categories: CategorySet(configuration.categories),
            body: try configuration.kind.body(common)
        )
        registration.filter = configuration.filter.form
        registration.concurrency = configuration.concurrency
        registration.ordering = configuration.ordering
        registration.retry = configuration.retry
        registration.timeout = configuration.timeout
        registration.rate = configuration.rate
        registration.limit = configuration.limit
        return registration
    }
}
