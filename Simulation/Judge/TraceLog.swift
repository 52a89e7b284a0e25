import Logging

/// Adds what a worker logs to the trace.
// Sendable: on the simulation's one thread.
struct TraceLog: LogHandler, @unchecked Sendable {
    let judge: Judge
    let process: Int
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.info

    init(_ judge: Judge, process: Int) { (self.judge, self.process) = (judge, process) }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        judge.note(
            "worker \(process): \(event.message) \((event.metadata ?? [:]).map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " "))"
        )
    }
}
