package import Logging
import Synchronization

/// A logger whose lines are gathered, and written with one call before what they tell of counts as done.
///
/// For handlers: a line each for tens of thousands of messages a second, where a call of the system for each costs more than
/// all else. Whoever settles the messages calls ``flush()`` first. A crash before that loses lines, but settles nothing: the
/// messages come again, and so do their lines.
package struct GatheredLog: Sendable {
    /// Writes into memory.
    package let logger: Logger
    private let output: GatheringLogOutput?

    /// Gathers what would go where this logger writes; one that is not ours writes as it does.
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

    /// Writes what was logged before the call; when it returns, all of it is where it goes.
    ///
    /// Lines that the output refuses are dropped.
    package func flush() { output?.flush() }
}

/// Keeps lines until they are flushed, or are many.
final class GatheringLogOutput: LogOutput {
    /// With more bytes than this, whoever logs writes them.
    static let mostKept = 64 * 1024

    private let base: any LogOutput
    private let kept = Mutex(LogBuffer())
    /// Held while lines are written, so that they stay in their order, and nobody takes lines on their way for written.
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
