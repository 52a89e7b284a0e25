import Handlers
import Logging
import Pipeline
import Telemetry
import UpstreamKit
import Vocabulary

/// Makes the configured handlers.
enum HandlerFactory {
    /// The registration of every configured handler, and of those that the program brings.
    ///
    /// - Parameters:
    ///   - configurations: The configured ones.
    ///   - own: The program's own; each is checked, and names are unique among all.
    ///   - logger: For the handlers that log.
    /// - Throws: ``WorkerError/unusable(_:)`` with every handler that can't be made, and why.
    /// - Returns: The configured ones first.
    static func registrations(
        _ configurations: [HandlerConfiguration],
        and own: [HandlerRegistration],
        logger: Logger
    ) throws(WorkerError) -> [HandlerRegistration] {
        var problems: [String] = []
        let made = configurations.enumerated().compactMap { index, configuration -> HandlerRegistration? in
            do throws(Unusable) {
                return try registration(configuration, logger: logger)
            } catch {
                problems.append("handlers.\(index).\(error.key): \(error.message)")
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

    private struct Unusable: Error {
        var key: String
        var message: String
    }

    private static func registration(
        _ configuration: HandlerConfiguration,
        logger: Logger
    ) throws(Unusable) -> HandlerRegistration {
        var registration = HandlerRegistration(
            name: configuration.name,
            categories: CategorySet(configuration.categories),
            body: try body(configuration, logger: logger)
        )
        registration.concurrency = configuration.concurrency
        registration.ordering = configuration.ordering == .device ? .device : .none
        registration.retry = RetryPolicy(
            maxAttempts: configuration.maximumAttempts,
            initial: configuration.initialDelay,
            maximum: configuration.maximumDelay
        )
        registration.timeout = configuration.timeout
        return registration
    }

    private static func body(
        _ configuration: HandlerConfiguration,
        logger: Logger
    ) throws(Unusable) -> HandlerRegistration.Body {
        switch configuration.kind {
        case .sql(let name):
            guard let function = SQLFunction(name) else {
                throw Unusable(key: "sql.function", message: "'\(name)' is not a function name")
            }
            return .function(function)
        case .webhook(let webhook):
            return .handler(try handler(webhook, concurrency: configuration.concurrency))
        case .exec(let exec):
            let mode: ExecHandler.Mode = exec.mode == .once ? .once : .stream
            return .handler(
                ExecHandler(name: configuration.name, command: exec.command, mode: mode, logger: logger)
            )
        case .plugin:
            throw Unusable(
                key: "plugin",
                message: "plugins are not supported: build the handler into a worker of your own, or use exec"
            )
        case .log:
            return .handler(MessageLogHandler(logger: logger))
        }
    }

    private static func handler(
        _ webhook: WebhookConfiguration,
        concurrency: Int
    ) throws(Unusable) -> WebhookHandler {
        guard let endpoint = WebhookEndpoint(webhook.url) else {
            throw Unusable(key: "webhook.url", message: "'\(webhook.url)' is not an http or https URL")
        }
        let secretFile = webhook.secretFile
        try check(secretFile)
        do throws(WebhookTrustError) {
            return try WebhookHandler(
                options: WebhookHandler.Options(
                    endpoint: endpoint,
                    timeout: webhook.timeout,
                    policy: NetworkPolicy(allowed: webhook.allowedNetworks.compactMap(Network.init)),
                    connections: concurrency,
                    mode: webhook.mode == .binary ? .binary : .structured,
                    caFile: webhook.caFile,
                    rejectStatuses: Set(webhook.rejectStatuses)
                ),
                secrets: { try secretFile.lines() }
            )
        } catch {
            throw Unusable(key: "webhook.ca_file", message: error.description)
        }
    }

    /// Checks the secret at startup, not at the first message.
    private static func check(_ secretFile: SecretFile) throws(Unusable) {
        let key = "webhook.secret_file"
        let lines: [[UInt8]]
        do throws(FileError) {
            lines = try secretFile.lines()
        } catch {
            throw Unusable(key: key, message: error.message)
        }
        do throws(WebhookSigner.SecretError) {
            _ = try WebhookSigner(secrets: lines)
        } catch {
            throw Unusable(key: key, message: "'\(secretFile.path)': \(error.description)")
        }
    }
}
