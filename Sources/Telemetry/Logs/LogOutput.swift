import Synchronization

/// A destination of finished log lines.
package protocol LogOutput: Sendable {
    /// Writes whole lines, each with its newline, and waits for them to be written, unless their reader stalls.
    ///
    /// Lines of concurrent calls don't mix.
    func write(_ lines: [UInt8])

    /// Writes the lines that the body appends, now or soon; the body is called once and must not log.
    func append(_ body: (inout LogBuffer) -> Void)

    /// Sets the format of lines that the output writes by itself.
    func show(in format: LogFormat)
}

extension LogOutput {
    package func show(in format: LogFormat) {}

    package func append(_ body: (inout LogBuffer) -> Void) {
        var lines = LogBuffer()
        body(&lines)
        write(lines.bytes)
    }
}

/// A log output to memory, for tests.
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
