package import Logging
import Synchronization
package import Telemetry

extension Logger {
    /// A logger whose lines nobody reads.
    package static var quiet: Logger { Logger(label: "test") { _ in SwiftLogNoOpLogHandler() } }

    package static func lines(
        label: String,
        level: Logger.Level,
        format: LogFormat,
        output: any LogOutput
    ) -> Logger {
        Logger(label: label) { LineLogHandler(label: $0, level: level, format: format, output: output) }
    }
}

/// A log output to memory.
package final class MemoryLogOutput: LogOutput {
    private let kept = Mutex<[[UInt8]]>([])

    package init() {}

    package func write(_ lines: [UInt8]) {
        kept.withLock { $0.append(lines) }
    }

    /// The text of each write, one or more lines.
    package var writes: [String] { kept.withLock { $0.map { String(decoding: $0, as: UTF8.self) } } }

    package var lines: [String] {
        writes.flatMap { write in
            write.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { $0 + "\n" }
        }
    }
}
