import Dispatch
import Glibc
import Logging
import Synchronization
import Vocabulary

/// A log output to a file descriptor, such as standard error (stdout is for data alone).
///
/// A thread of its own writes, so that a stalled reader blocks nobody. Meanwhile lines are buffered; when the buffer is
/// full, they are dropped and counted, and a line reports them as soon as there is room.
package final class DescriptorLogOutput: LogOutput {
    /// The process's standard error, shared by all loggers.
    package static let standardError = {
        atexit { DescriptorLogOutput.flushStandardError() }
        return DescriptorLogOutput(STDERR_FILENO)
    }()

    /// Flushes before the process ends, for at most half a second.
    package static func flushStandardError() { standardError.flush(within: .milliseconds(500)) }

    /// The buffer's limit in bytes.
    static let mostWaiting = 1 << 20
    /// How long ``write(_:)`` waits for its lines to be written; not at all while the reader is stalled.
    private static let patience = Duration.milliseconds(250)

    private struct State {
        var waiting = LogBuffer()
        /// The bytes taken so far, and those of them written or refused.
        var bytes = (taken: 0, done: 0)
        /// Whoever waits for bytes to be written or refused, with their end.
        var waiters: [(end: Int, done: DispatchSemaphore)] = []
        /// Dropped lines not yet reported.
        var untold = 0
        var format = LogFormat.json
        var hasThread = false
        /// Whether the thread sleeps and has not been woken yet.
        var isIdle = false
        /// Whether a wait has timed out since the last write ended.
        var isStalled = false
    }

    private let descriptor: Int32
    /// The number of lines dropped.
    private let total = Atomic<Int>(0)
    private let state = Mutex(State())
    /// Signalled when there is something to write.
    private let filled = DispatchSemaphore(value: 0)

    /// An output to a descriptor, which stays the caller's, for the process's lifetime.
    package init(_ descriptor: Int32) { self.descriptor = descriptor }

    package var dropped: Int { total.load(ordering: .relaxed) }

    package func show(in format: LogFormat) { state.withLock { $0.format = format } }

    package func append(_ body: (inout LogBuffer) -> Void) { _ = take(body) }

    package func write(_ lines: [UInt8]) {
        wait(for: take { $0.append(line: lines) }, within: Self.patience, orSkip: true)
    }

    /// Waits until all lines so far are written, or the time is over; for the end of the process.
    package func flush(within time: Duration) {
        wait(for: state.withLock { $0.bytes.taken }, within: time, orSkip: false)
    }

    /// Takes lines or drops them; returns the byte count to wait for.
    private func take(_ body: (inout LogBuffer) -> Void) -> Int {
        state.withLock { state in
            if !state.hasThread, state.waiting.count < Self.mostWaiting {
                state.hasThread = DetachedThread.run { self.work() }
            }
            guard state.waiting.count < Self.mostWaiting, state.hasThread else {
                var lines = LogBuffer()
                body(&lines)
                drop(lines.bytes[...], &state)
                return state.bytes.taken
            }
            let count = state.waiting.count
            body(&state.waiting)
            state.bytes.taken += state.waiting.count - count
            if state.isIdle {
                state.isIdle = false
                filled.signal()
            }
            return state.bytes.taken
        }
    }

    private func drop(_ lines: ArraySlice<UInt8>, _ state: inout State) {
        let count = lines.count { $0 == 0x0A }
        state.untold += count
        total.wrappingAdd(count, ordering: .relaxed)
    }

    private func wait(for end: Int, within time: Duration, orSkip: Bool) {
        let done = DispatchSemaphore(value: 0)
        let isWaiting = state.withLock { state in
            guard state.bytes.done < end, !(orSkip && state.isStalled) else { return false }
            state.waiters.append((end, done))
            return true
        }
        guard isWaiting, done.wait(timeout: .now() + time.inSeconds) == .timedOut else { return }
        state.withLock { $0.isStalled = $0.bytes.done < end }
    }

    private func work() -> Never {
        var lines = LogBuffer()
        // Whether the last line written is incomplete.
        var isCut = false
        while true {
            let taken = state.withLock { state -> Int? in
                state.isIdle = state.waiting.isEmpty
                guard !state.isIdle else { return nil }
                swap(&lines, &state.waiting)
                if state.untold > 0 {
                    lines.append(line: notice(state.untold, in: state.format))
                    state.untold = 0
                }
                return state.bytes.taken
            }
            guard let end = taken else {
                filled.wait()
                continue
            }
            // The rest of a half-written line was refused: end it, so that the next one stays on its own.
            if isCut, put([0x0A]) == 1 { isCut = false }
            let written = isCut ? 0 : put(lines.bytes)
            if written > 0 { isCut = lines.bytes[written - 1] != 0x0A }
            state.withLock { state in
                drop(lines.bytes[written...], &state)
                state.bytes.done = end
                state.isStalled = false
                for waiter in state.waiters where waiter.end <= end { waiter.done.signal() }
                state.waiters.removeAll { $0.end <= end }
            }
            lines.removeAll()
        }
    }

    private func notice(_ count: Int, in format: LogFormat) -> [UInt8] {
        let line = LogLine(
            time: .now,
            level: .warning,
            message: "log lines were dropped, as nobody read them in time",
            fields: [
                LogField.event.rawValue: .string(EventName.logLinesDropped.rawValue),
                LogField.count.rawValue: LogValue.int(count).metadata,
            ]
        )
        return line.bytes(in: format)
    }

    /// Writes for as long as it takes; returns the number of bytes, less than all if the descriptor refuses the others.
    private func put(_ lines: [UInt8]) -> Int {
        lines.withUnsafeBytes { bytes in
            var rest = bytes[...]
            while !rest.isEmpty {
                let written = Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
                if written > 0 {
                    rest = rest.dropFirst(written)
                } else if errno == EAGAIN {
                    // A non-blocking pipe that is full.
                    var poll = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                    _ = Glibc.poll(&poll, 1, -1)
                } else if errno != EINTR {
                    break
                }
            }
            return bytes.count - rest.count
        }
    }
}
