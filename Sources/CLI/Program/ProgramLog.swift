import Logging
import Telemetry
import Worker

/// The process's logger.
enum ProgramLog {
    /// Sends all logging of the process to stderr, as configured, and returns the program's own logger.
    static func start(_ configuration: WorkerConfiguration) -> Logger {
        let format: LogFormat =
            switch configuration.logStyle {
            case .auto: .automatic
            case .json: .json
            case .text: .terminalText
            }
        let level = configuration.logLevel
        LoggingSystem.bootstrap { LineLogHandler(label: $0, level: level, format: format) }
        return Logger(label: "upstream-worker")
    }
}
