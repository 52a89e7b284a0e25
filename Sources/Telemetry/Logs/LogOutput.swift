import Glibc
import Synchronization

/// Where finished log lines go.
package protocol LogOutput: Sendable {
    /// Writes one line with its newline; lines written at the same time don't mix.
    func write(_ line: [UInt8])
}

/// The process's standard error.
///
/// stdout is for data alone.
package final class StandardErrorOutput: LogOutput {
    /// The one output: every logger of the process shares its lock.
    package static let shared = StandardErrorOutput()

    private let lock = Mutex(())

    private init() {}

    package func write(_ line: [UInt8]) {
        lock.withLock { _ in
            line.withUnsafeBytes { bytes in
                var rest = bytes[...]
                while !rest.isEmpty {
                    let written = Glibc.write(
                        STDERR_FILENO,
                        UnsafeRawBufferPointer(rebasing: rest).baseAddress,
                        rest.count
                    )
                    if written > 0 {
                        rest = rest.dropFirst(written)
                    } else if errno == EAGAIN {
                        // A non-blocking pipe: give its reader a second, then drop the line rather than block the
                        // caller.
                        var descriptor = pollfd(fd: STDERR_FILENO, events: Int16(POLLOUT), revents: 0)
                        guard poll(&descriptor, 1, 1000) > 0 else { return }
                    } else if errno != EINTR {
                        return
                    }
                }
            }
        }
    }
}

/// Lines kept in memory, for tests.
package final class MemoryLogOutput: LogOutput {
    private let kept = Mutex<[String]>([])

    package init() {}

    package func write(_ line: [UInt8]) {
        kept.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
    }

    /// The lines so far, each with its newline.
    package var lines: [String] { kept.withLock { $0 } }
}
