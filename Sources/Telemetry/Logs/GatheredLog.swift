package import Logging
import Synchronization

/// A logger that buffers lines, where a system call for each would cost more than all else.
///
/// Whoever settles the messages calls ``flush()`` first: a crash before that loses lines, but settles nothing.
package struct GatheredLog: Sendable {
    package let logger: Logger
    private let output: GatheringLogOutput?

    /// Buffers this logger's lines, if it is one of ours; another one writes directly.
    package init(_ logger: Logger) {
        guard let lines = logger.handler as? LineLogHandler else {
            self.logger = logger
            output = nil
            return
        }
        let output = GatheringLogOutput(lines.output)
        self.output = output
        self.logger = Logger(label: logger.label) { _ in lines.writing(to: output) }
    }

    /// Writes all buffered lines and waits; the output drops lines that it refuses.
    package func flush() { output?.flush() }
}

/// Keeps lines until they are flushed or too many.
final class GatheringLogOutput: LogOutput {
    /// With more bytes than this, the logging thread writes them.
    static let mostKept = 64 * 1024

    private let base: any LogOutput
    private let kept = Mutex(LogBuffer())
    /// Held while lines are written, to keep their order, and so that a concurrent flush waits for them.
    private let written = Mutex(LogBuffer())

    init(_ base: any LogOutput) { self.base = base }

    func write(_ lines: [UInt8]) {
        append { $0.append(line: lines) }
        flush()
    }

    func append(_ body: (inout LogBuffer) -> Void) {
        let isFull = kept.withLock { kept in
            body(&kept)
            return kept.count > Self.mostKept
        }
        if isFull { flush() }
    }

    func flush() {
        written.withLock { lines in
            kept.withLock { swap(&$0, &lines) }
            guard !lines.isEmpty else { return }
            base.write(lines.bytes)
            lines.removeAll()
        }
    }
}
