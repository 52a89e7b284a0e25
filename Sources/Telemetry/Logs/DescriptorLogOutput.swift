import Glibc
import Synchronization

/// A file descriptor, such as the process's standard error: stdout is for data alone.
///
/// A line that comes while another is being written is written with the next ones, in one go, by the thread that is at it:
/// those that log at the same time neither wait for each other nor pay a system call each.
package final class DescriptorLogOutput: LogOutput {
    /// The process's standard error: every logger shares its lock.
    package static let standardError = DescriptorLogOutput(STDERR_FILENO)

    private struct State {
        /// Lines that came while others were written.
        var waiting = LogBuffer()
        /// Memory for the next thread that writes.
        var spare = LogBuffer()
        /// Whether a thread writes, and will write what waits.
        var isWriting = false
    }

    /// The most bytes that wait; then callers wait for the output, as slow as it is.
    private static let mostWaiting = 64 * 1024

    private let descriptor: Int32
    private let state = Mutex(State())
    /// Held while lines are written; whether the last one lacks its end.
    private let isCut = Mutex(false)

    /// An output over a descriptor, which stays the caller's.
    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    package func append(_ body: (inout LogBuffer) -> Void) {
        enum Turn { case mine, others, full }
        var lines = LogBuffer()
        let turn = state.withLock { state in
            guard state.isWriting else {
                state.isWriting = true
                swap(&lines, &state.spare)
                return Turn.mine
            }
            guard state.waiting.count < Self.mostWaiting else { return .full }
            body(&state.waiting)
            return .others
        }
        guard turn != .others else { return }
        body(&lines)
        write(lines.bytes)
        guard turn == .mine else { return }
        while true {
            lines.removeAll()
            let isDone = state.withLock { state in
                if state.waiting.isEmpty {
                    state.isWriting = false
                    swap(&lines, &state.spare)
                    return true
                }
                swap(&lines, &state.waiting)
                return false
            }
            if isDone { return }
            write(lines.bytes)
        }
    }

    package func write(_ lines: [UInt8]) {
        isCut.withLock { isCut in
            // What is left of a line whose rest was dropped stays a line of its own.
            if isCut, put([0x0A]) == 1 { isCut = false }
            guard !isCut else { return }
            let written = put(lines)
            isCut = written > 0 && lines[written - 1] != 0x0A
        }
    }

    /// Writes; returns how many bytes, less than all where the descriptor takes no more.
    private func put(_ lines: [UInt8]) -> Int {
        lines.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let written = Glibc.write(
                    descriptor,
                    UnsafeRawBufferPointer(rebasing: rest).baseAddress,
                    rest.count
                )
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if errno == EAGAIN {
                    // A non-blocking pipe: give its reader a second, then drop the lines rather than block the caller.
                    var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    guard Glibc.poll(&poll, 1, 1000) > 0 else { break }
                } else if errno != EINTR {
                    break
                }
            }
            return bytes.count - rest.count
        }
    }
}
