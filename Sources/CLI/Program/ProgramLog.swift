import Logging
import Telemetry
import UpstreamConfiguration

/// The process's logger.
enum ProgramLog {
    /// Directs all logging to stderr, as configured; returns the program's logger, and the adjustable level of all
    /// loggers.
    static func start(_ configuration: WorkerConfiguration) -> (logger: Logger, threshold: LogThreshold) {
        let format: LogFormat =
            switch configuration.logStyle {
            case .auto: .automatic
            case .json: .json
            case .text: .terminalText
            }
        let threshold = LogThreshold(configuration.logLevel)
        LoggingSystem.bootstrap { LineLogHandler(label: $0, threshold: threshold, format: format) }
        return (Logger(label: "upstream-worker"), threshold)
    }
}
