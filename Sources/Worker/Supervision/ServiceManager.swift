import Glibc
import Vocabulary

/// The service manager that started this process, if it wants to be notified.
///
/// The protocol is systemd's, sd_notify(3): datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names.
package final class ServiceManager: Sendable {
    package enum Message: Sendable, Equatable {
        /// Started, or reloaded.
        case ready
        /// Begins to reload its configuration, at this time of `CLOCK_MONOTONIC` in microseconds.
        case reloading(UInt64)
        case stopping
        /// Its state in one line, for `systemctl status`.
        case status(String)
        case alive
        /// Starting or stopping continues for up to this time from now.
        case extendTimeout(Duration)

        var text: String {
            switch self {
            case .ready: "READY=1"
            case .reloading(let time): "RELOADING=1\nMONOTONIC_USEC=\(time)"
            case .stopping: "STOPPING=1"
            case .status(let text): "STATUS=" + String(text.map { $0.isNewline ? " " : $0 })
            case .alive: "WATCHDOG=1"
            case .extendTimeout(let time): "EXTEND_TIMEOUT_USEC=\(time.microseconds)"
            }
        }
    }

    /// How long the process may go without a sign of life before it is killed; nil without a watchdog.
    package let watchdog: Duration?

    /// The longest watchdog honoured, 30 days in microseconds; longer ones are fed as often.
    private static let longestWatchdog: UInt64 = 30 * 86_400 * 1_000_000

    private let descriptor: CInt
    /// A `sockaddr_un` up to the end of the name; abstract names have no NUL at the end.
    private let address: [UInt8]

    /// The manager that the environment names; nil without one.
    ///
    /// `environment` has `NOTIFY_SOCKET`, `WATCHDOG_USEC`, and `WATCHDOG_PID`, the process that the latter is for.
    package init?(environment: [String: String], processID: Int32 = getpid()) {
        guard let address = environment["NOTIFY_SOCKET"].flatMap(Self.address) else { return nil }
        // Non-blocking: a manager that does not read must not block us.
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        self.address = address
        let isOurs = environment["WATCHDOG_PID"].map { $0 == String(processID) } ?? true
        watchdog = environment["WATCHDOG_USEC"].flatMap { UInt64($0) }
            .flatMap { isOurs && $0 > 0 ? .microseconds(Int64(min($0, Self.longestWatchdog))) : nil }
    }

    deinit { close(descriptor) }

    /// Notifies the manager by one datagram without waiting; returns whether its socket accepted it.
    package func tell(_ messages: [Message]) -> Bool {
        let bytes = Array(messages.map(\.text).joined(separator: "\n").utf8)
        return address.withUnsafeBytes { address in
            guard let name = address.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return false }
            let length = socklen_t(address.count)
            var sent: Int
            repeat {
                sent = sendto(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL), name, length)
            } while sent < 0 && errno == EINTR
            return sent == bytes.count
        }
    }

    /// The current time in the form of `MONOTONIC_USEC`.
    package static var monotonicTime: UInt64 { MonotonicTime.now.nanoseconds / 1_000 }

    /// A socket address from a path, or `@` and an abstract name (unix(7)); nil for anything else or too long.
    private static func address(_ name: String) -> [UInt8]? {
        var bytes = Array(name.utf8)
        guard bytes.count > 1, bytes.count < MemoryLayout.size(ofValue: sockaddr_un().sun_path) else { return nil }
        switch bytes[0] {
        case UInt8(ascii: "/"): bytes.append(0)
        case UInt8(ascii: "@"): bytes[0] = 0
        default: return nil
        }
        return withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + bytes
    }
}
