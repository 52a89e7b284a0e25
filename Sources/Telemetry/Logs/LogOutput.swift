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
///
/// A line that comes while another is being written is written with the next ones, in one go, by the thread that is at it:
/// handlers that log at the same time neither wait for each other nor pay a system call each.
package final class StandardErrorOutput: LogOutput {
    /// The one output: every logger of the process shares its lock.
    package static let shared = StandardErrorOutput()

    private struct State {
        /// Lines that came while others were written.
        var waiting: [UInt8] = []
        /// Whether a thread writes, and will write what waits.
        var isWriting = false
    }

    /// The most bytes that wait; then callers wait for the output, as slow as it is.
    private static let mostWaiting = 64 * 1024

    private let state = Mutex(State())
    private let lock = Mutex(())

    private init() {}

    package func write(_ line: [UInt8]) {
        enum Turn { case mine, others, full }
        let turn = state.withLock { state in
            guard state.isWriting else {
                state.isWriting = true
                return Turn.mine
            }
            guard state.waiting.count + line.count <= Self.mostWaiting else { return .full }
            state.waiting += line
            return .others
        }
        switch turn {
        case .others: return
        case .full: return put(line)
        case .mine: break
        }
        put(line)
        while true {
            let lines = state.withLock { state in
                let lines = state.waiting
                state.waiting = []
                if lines.isEmpty { state.isWriting = false }
                return lines
            }
            guard !lines.isEmpty else { return }
            put(lines)
        }
    }

    /// Writes whole lines.
    private func put(_ lines: [UInt8]) {
        lock.withLock { _ in
            lines.withUnsafeBytes { bytes in
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
                        // A non-blocking pipe: give its reader a second, then drop the lines rather than block the
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
