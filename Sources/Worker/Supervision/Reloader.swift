import ConfigurationKeys
package import Logging
import Synchronization
package import Telemetry
package import UpstreamConfiguration

/// Reloads the running configuration (SIGHUP): adopts what needs no restart, names what does; none if it is wrong.
package final class Reloader: Sendable {
    private let running: Mutex<ConfigurationLoader.Result>
    private let load: @Sendable () throws -> ConfigurationLoader.Result
    /// Adopts what needs no restart; throws, and adopts nothing, if the process could not be started with it.
    private let adopt: @Sendable (WorkerConfiguration) throws -> Void
    private let threshold: LogThreshold
    private let logger: Logger

    /// Makes a reloader; `load` reads the configuration as at the start.
    package init(
        running: ConfigurationLoader.Result,
        threshold: LogThreshold,
        logger: Logger,
        load: @escaping @Sendable () throws -> ConfigurationLoader.Result,
        adopt: @escaping @Sendable (WorkerConfiguration) throws -> Void = { _ in }
    ) {
        self.running = Mutex(running)
        self.threshold = threshold
        self.logger = logger
        self.load = load
        self.adopt = adopt
    }

    package func reload() { running.withLock { reload(&$0) } }

    private func reload(_ running: inout ConfigurationLoader.Result) {
        let new: ConfigurationLoader.Result
        do {
            new = try load()
            try adopt(new.configuration)
        } catch {
            logger.event(
                .error,
                .configurationReloadFailed,
                "the configuration is wrong: everything goes on with the one that runs",
                [.error: .string(Self.line("\(error)"))]
            )
            return
        }
        let change = ConfigurationChange(from: running, to: new)
        running.adopt(change, of: new)
        threshold.level = new.configuration.logLevel
        logger.event(
            .notice,
            .configurationReloaded,
            "the configuration was read again; files of secrets are read whenever they are needed, systemd's credentials at the start",
            [.keys: .string(change.adopted.joined(separator: " "))]
        )
        let stale = ConfigurationFiles(credentials: new.credentials).changedCredentials(beside: new.path)
        if !stale.isEmpty {
            logger.event(
                .warning,
                .credentialsChanged,
                "these credentials have changed on disk since systemd read them: restart the unit",
                [.keys: .string(stale.joined(separator: " "))]
            )
        }
        guard !change.awaiting.isEmpty else { return }
        logger.event(
            .warning,
            .configurationNeedsRestart,
            "these keys have changed and need a restart",
            [.keys: .string(change.awaiting.joined(separator: " "))]
        )
    }

    private static func line(_ text: String) -> String {
        text.split(whereSeparator: \.isNewline).joined(separator: "; ")
    }
}
