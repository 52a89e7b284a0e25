import Glibc
import Logging
import Synchronization
import Vocabulary

/// A log output to a file descriptor, such as standard error (stdout is for data alone).
///
/// A separate thread writes, so that a stalled reader blocks nobody: lines that come meanwhile are buffered and written
/// in one go. When the buffer is full, lines are dropped and counted, and a line reports them as soon as there is room.
package final class DescriptorLogOutput: LogOutput, @unchecked Sendable {
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

    private let descriptor: Int32
    /// The number of lines dropped.
    private let total = Atomic<Int>(0)
    /// Guards everything below.
    private let lock: UnsafeMutablePointer<pthread_mutex_t>
    /// Signalled when there is something to write.
    private let filled: UnsafeMutablePointer<pthread_cond_t>
    /// Signalled when something was written or refused.
    private let emptied: UnsafeMutablePointer<pthread_cond_t>
    private var waiting = LogBuffer()
    /// The bytes taken so far, and those of them written or refused.
    private var bytes = (taken: 0, done: 0)
    /// Dropped lines not yet reported.
    private var untold = 0
    private var format = LogFormat.json
    private var hasThread = false
    /// Whether the thread sleeps and has not been woken yet.
    private var isIdle = false
    /// Whether a wait has timed out since the last write ended.
    private var isStalled = false

    /// An output to a descriptor, which stays the caller's, for the process's lifetime.
    package init(_ descriptor: Int32) {
        self.descriptor = descriptor
        lock = .allocate(capacity: 1)
        filled = .allocate(capacity: 1)
        emptied = .allocate(capacity: 1)
        pthread_mutex_init(lock, nil)
        pthread_cond_init(filled, nil)
        var attributes = pthread_condattr_t()
        pthread_condattr_init(&attributes)
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
        pthread_cond_init(emptied, &attributes)
        pthread_condattr_destroy(&attributes)
    }

    deinit {
        // No thread was started: it would have kept this alive.
        pthread_cond_destroy(emptied)
        pthread_cond_destroy(filled)
        pthread_mutex_destroy(lock)
        emptied.deallocate()
        filled.deallocate()
        lock.deallocate()
    }

    package var dropped: Int { total.load(ordering: .relaxed) }

    package func show(in format: LogFormat) { locked { self.format = format } }

    package func append(_ body: (inout LogBuffer) -> Void) { _ = take(body) }

    package func write(_ lines: [UInt8]) {
        wait(for: take { $0.append(line: lines) }, within: Self.patience, orSkip: true)
    }

    /// Waits until all lines so far are written, or the time is over; for the end of the process.
    package func flush(within time: Duration) { wait(for: locked { bytes.taken }, within: time, orSkip: false) }

    private func locked<T>(_ body: () -> T) -> T {
        pthread_mutex_lock(lock)
        defer { pthread_mutex_unlock(lock) }
        return body()
    }

    /// Takes lines or drops them; returns the byte count to wait for.
    private func take(_ body: (inout LogBuffer) -> Void) -> Int {
        locked {
            guard waiting.count < Self.mostWaiting, hasThread || startThread() else {
                var lines = LogBuffer()
                body(&lines)
                drop(lines.bytes[...])
                return bytes.taken
            }
            let count = waiting.count
            body(&waiting)
            bytes.taken += waiting.count - count
            if isIdle {
                isIdle = false
                pthread_cond_signal(filled)
            }
            return bytes.taken
        }
    }

    /// Counts dropped lines; under the lock.
    private func drop(_ lines: ArraySlice<UInt8>) {
        let count = lines.count { $0 == 0x0A }
        untold += count
        total.wrappingAdd(count, ordering: .relaxed)
    }

    private func wait(for end: Int, within time: Duration, orSkip: Bool) {
        var limit = timespec()
        clock_gettime(CLOCK_MONOTONIC, &limit)
        let nanoseconds = limit.tv_nsec + Int(time / .nanoseconds(1))
        (limit.tv_sec, limit.tv_nsec) = (limit.tv_sec + nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
        locked {
            while bytes.done < end, !(orSkip && isStalled) {
                guard pthread_cond_timedwait(emptied, lock, &limit) != 0 else { continue }
                isStalled = bytes.done < end
                return
            }
        }
    }

    /// Starts the thread under the lock; false if the system has none to give.
    private func startThread() -> Bool {
        // Retained by the thread for ever.
        let this = Unmanaged.passRetained(self)
        var thread = pthread_t()
        let code = pthread_create(
            &thread,
            nil,
            { argument in
                guard let argument else { return nil }
                Unmanaged<DescriptorLogOutput>.fromOpaque(argument).takeUnretainedValue().work()
            },
            this.toOpaque()
        )
        guard code == 0 else {
            this.release()
            return false
        }
        pthread_detach(thread)
        hasThread = true
        return true
    }

    private func work() -> Never {
        var lines = LogBuffer()
        // Whether the last line written is incomplete.
        var isCut = false
        while true {
            let end = locked {
                while waiting.isEmpty {
                    isIdle = true
                    pthread_cond_wait(filled, lock)
                }
                isIdle = false
                swap(&lines, &waiting)
                if untold > 0 {
                    lines.append(line: notice(untold))
                    untold = 0
                }
                return bytes.taken
            }
            // The rest of a half-written line was refused: end it, so that the next one stays on its own.
            if isCut, put([0x0A]) == 1 { isCut = false }
            let written = isCut ? 0 : put(lines.bytes)
            if written > 0 { isCut = lines.bytes[written - 1] != 0x0A }
            locked {
                drop(lines.bytes[written...])
                bytes.done = end
                isStalled = false
                pthread_cond_broadcast(emptied)
            }
            lines.removeAll()
        }
    }

    private func notice(_ count: Int) -> [UInt8] {
        let line = LogLine(
            time: .now,
            level: .warning,
            message: "log lines were dropped, as nobody read them in time",
            fields: [
                LogField.event.rawValue: .string(EventName.logLinesDropped.rawValue),
                LogField.count.rawValue: LogValue.int(count).metadata,
            ]
        )
        return switch format {
        case .json: line.json
        case .text(let colours): line.text(colours: colours)
        }
    }

    /// Writes for as long as it takes; returns the number of bytes, less than all if the descriptor refuses the others.
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
