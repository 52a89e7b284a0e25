import Logging
import Synchronization

/// A log that keeps its lines' fields for a test to look at.
final class RecordedLog: Sendable {
    private let recorded = Mutex<[[String: String]]>([])

    /// The fields of all lines so far, the text under `message`.
    var lines: [[String: String]] { recorded.withLock { $0 } }

    /// A logger that writes here.
    var logger: Logger {
        var logger = Logger(label: "test") { _ in Handler(log: self) }
        logger.logLevel = .trace
        return logger
    }

    private struct Handler: LogHandler {
        let log: RecordedLog
        var logLevel = Logger.Level.trace
        var metadata: Logger.Metadata = [:]
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }

        func log(event: LogEvent) {
            var fields = (event.metadata ?? [:]).merging(metadata) { own, _ in own }.mapValues { "\($0)" }
            fields["message"] = "\(event.message)"
            log.recorded.withLock { $0.append(fields) }
        }
    }
}
