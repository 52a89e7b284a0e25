import ConfigurationKeys
import Dispatcher
import Handlers
import Logging
import Telemetry
import UpstreamConfiguration
import UpstreamKit
import Vocabulary

extension HandlerConfiguration {
    var retry: RetryPolicy {
        RetryPolicy(maxAttempts: maximumAttempts, initial: initialDelay, maximum: maximumDelay)
    }
}

/// Makes the configured handlers.
enum HandlerFactory {
    /// The registrations of all configured handlers, then of the program's own.
    ///
    /// - Parameters:
    ///   - configurations: The configured handlers.
    ///   - own: The program's own handlers; each is checked, and names are unique among all.
    ///   - logger: The logger of handlers.
    ///   - gathered: The logger of handlers that log every message; by default the same.
    /// - Throws: ``WorkerError/unusable(_:)`` with every handler that can't be made, and why.
    /// - Returns: The registrations.
    static func registrations(
        _ configurations: [HandlerConfiguration],
        and own: [HandlerRegistration],
        logger: Logger,
        gathered: Logger? = nil
    ) throws(WorkerError) -> [HandlerRegistration] {
        var problems: [String] = []
        let made = configurations.enumerated().compactMap { index, configuration -> HandlerRegistration? in
            do throws(Unusable) {
                return try registration(configuration, logger: logger, gathered: gathered ?? logger)
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
        logger: Logger,
        gathered: Logger
    ) throws(Unusable) -> HandlerRegistration {
        var registration = HandlerRegistration(
            name: configuration.name,
            categories: CategorySet(configuration.categories),
            body: try body(configuration, logger: logger, gathered: gathered)
        )
        registration.concurrency = configuration.concurrency
        registration.ordering = configuration.ordering == .device ? .device : .none
        registration.retry = configuration.retry
        registration.timeout =
            if case .plugin = configuration.kind { PluginHandler.attemptTimeout } else { configuration.timeout }
        registration.rate = configuration.rate
        return registration
    }

    private static func body(
        _ configuration: HandlerConfiguration,
        logger: Logger,
        gathered: Logger
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
        case .plugin(let plugin):
            return .handler(try handler(plugin, configuration, logger: logger))
        case .log:
            return .handler(MessageLogHandler(logger: gathered))
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
        let headers = try headers(of: webhook)
        do throws(WebhookTrustError) {
            return try WebhookHandler(
                options: WebhookHandler.Options(
                    endpoint: endpoint,
                    timeout: webhook.timeout,
                    policy: NetworkPolicy(allowed: webhook.allowedNetworks.compactMap(Network.init)),
                    connections: concurrency,
                    mode: webhook.mode == .binary ? .binary : .structured,
                    tls: WebhookTLSFiles(
                        ca: webhook.caFile,
                        certificate: webhook.certificateFile,
                        key: webhook.keyFile?.path
                    ),
                    rejectStatuses: Set(webhook.rejectStatuses)
                ),
                headers: headers,
                secrets: { try secretFile.lines() }
            )
        } catch {
            throw Unusable(key: "webhook", message: error.description)
        }
    }

    private static func handler(
        _ plugin: PluginConfiguration,
        _ configuration: HandlerConfiguration,
        logger: Logger
    ) throws(Unusable) -> PluginHandler {
        do throws(PluginHost.Missing) {
            return PluginHandler(
                name: configuration.name,
                options: PluginHandler.Options(
                    host: try PluginHost.find(configured: plugin.host),
                    library: plugin.path,
                    configuration: plugin.configuration,
                    processes: plugin.processes,
                    memory: plugin.memory ?? 0,
                    timeout: configuration.timeout,
                    messages: configuration.concurrency
                ),
                logger: logger
            )
        } catch {
            throw Unusable(key: "plugin.host", message: error.message)
        }
    }

    /// The headers for a webhook's requests: the file is read now, to find mistakes, and for each request.
    private static func headers(
        of webhook: WebhookConfiguration
    ) throws(Unusable) -> @Sendable () throws -> WebhookHeaders {
        var fixed = WebhookHeaders()
        do throws(WebhookHeaders.Refused) {
            fixed = try WebhookHeaders(webhook.headers.map { Array($0.utf8) }, holdsSecrets: false)
        } catch {
            throw Unusable(key: "webhook.headers", message: error.description)
        }
        guard let file = webhook.headersFile else { return { [fixed] in fixed } }
        let read: @Sendable () throws -> WebhookHeaders = { [fixed] in
            try fixed.adding(file.lines(), holdsSecrets: true)
        }
        do {
            _ = try read()
        } catch {
            let reason = (error as? FileError)?.message ?? "'\(file.path)': \(error)"
            throw Unusable(key: "webhook.headers_file", message: reason)
        }
        return read
    }

    /// Checks the secret at startup instead of at the first message.
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
