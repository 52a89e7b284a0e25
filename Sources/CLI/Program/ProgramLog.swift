import Logging
import Telemetry
import Worker

/// The process's logger.
enum ProgramLog {
    /// Sends all logging of the process to stderr, as configured.
    ///
    /// - Returns: The program's own logger, and the level of all loggers, which may be changed.
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
