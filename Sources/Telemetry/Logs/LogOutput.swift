/// A destination of finished log lines.
package protocol LogOutput: Sendable {
    /// Writes whole lines, which don't mix with those of others, and waits for it unless their reader stalls.
    func write(_ lines: [UInt8])

    /// Writes the lines that the body appends, now or soon; the body is called once and must not log.
    func append(_ body: (inout LogBuffer) -> Void)

    /// Sets the format of the output's own lines.
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
