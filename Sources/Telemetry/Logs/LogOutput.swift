import Synchronization

/// Where finished log lines go.
package protocol LogOutput: Sendable {
    /// Writes whole lines, each with its newline; when it returns, they are where they go, unless their reader stalls.
    ///
    /// Lines written at the same time don't mix.
    func write(_ lines: [UInt8])

    /// Writes the lines that the body appends, now or soon; it is called once, and must not log.
    func append(_ body: (inout LogBuffer) -> Void)

    /// How lines look that the output makes itself.
    func show(in format: LogFormat)
}

extension LogOutput {
    package func show(in format: LogFormat) {}

    /// Writes at once.
    package func append(_ body: (inout LogBuffer) -> Void) {
        var lines = LogBuffer()
        body(&lines)
        write(lines.bytes)
    }
}

/// Lines kept in memory, for tests.
package final class MemoryLogOutput: LogOutput {
    private let kept = Mutex<[[UInt8]]>([])

    package init() {}

    package func write(_ lines: [UInt8]) {
        kept.withLock { $0.append(lines) }
    }

    /// What was written at a time, one or more lines each.
    package var writes: [String] { kept.withLock { $0.map { String(decoding: $0, as: UTF8.self) } } }

    /// The lines so far, each with its newline.
    package var lines: [String] {
        writes.flatMap { write in
            write.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map { $0 + "\n" }
        }
    }
}
