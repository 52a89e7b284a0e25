import Glibc
import Vocabulary

/// The service manager that started this process, where it wants to hear of the process's state.
///
/// The protocol is systemd's, sd_notify(3): datagrams of `NAME=value` lines to the socket that `NOTIFY_SOCKET` names. Nothing is
/// loaded or linked for it.
package final class ServiceManager: Sendable {
    /// What a process tells.
    package enum Message: Sendable, Equatable {
        /// Started, or done with reloading.
        case ready
        /// Begins to read its configuration again, at this time of `CLOCK_MONOTONIC`, in microseconds.
        case reloading(UInt64)
        /// Begins to shut down.
        case stopping
        /// Its state in a line, for `systemctl status`.
        case status(String)
        /// A sign of life for the watchdog.
        case alive
        /// Starting or stopping goes on for up to this time from now.
        case extendTimeout(Duration)

        /// The lines that say so.
        var text: String {
            switch self {
            case .ready: "READY=1"
            case .reloading(let time): "RELOADING=1\nMONOTONIC_USEC=\(time)"
            case .stopping: "STOPPING=1"
            case .status(let text): "STATUS=" + String(text.map { $0.isNewline ? " " : $0 })
            case .alive: "WATCHDOG=1"
            case .extendTimeout(let time): "EXTEND_TIMEOUT_USEC=\(ServiceManager.microseconds(time))"
            }
        }
    }

    /// How long the process may be without a sign of life before it is killed; nil without a watchdog.
    package let watchdog: Duration?

    /// The longest of them, 30 days in microseconds: whoever sets more, up to all of 64 bits, is fed as often as that asks for.
    private static let longestWatchdog: UInt64 = 30 * 86_400 * 1_000_000

    private let descriptor: CInt
    /// A `sockaddr_un` up to the end of the name; an abstract one has no NUL behind it.
    private let address: [UInt8]

    /// The manager that the environment names; nil without one.
    ///
    /// - Parameters:
    ///   - environment: The process's: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, and `WATCHDOG_PID`, which says whom the former is for.
    ///   - processID: This process.
    package init?(environment: [String: String], processID: Int32 = getpid()) {
        guard let address = environment["NOTIFY_SOCKET"].flatMap(Self.address) else { return nil }
        // Without waiting: a manager that does not read must not hold us up.
        descriptor = socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        self.address = address
        let isOurs = environment["WATCHDOG_PID"].map { $0 == String(processID) } ?? true
        watchdog = environment["WATCHDOG_USEC"].flatMap { UInt64($0) }
            .flatMap { isOurs && $0 > 0 ? .microseconds(Int64(min($0, Self.longestWatchdog))) : nil }
    }

    deinit { close(descriptor) }

    /// Tells the manager; thread-safe, and never waits.
    ///
    /// - Returns: Whether the manager's socket has taken it.
    @discardableResult
    package func tell(_ messages: Message...) -> Bool {
        let bytes = Array(messages.map(\.text).joined(separator: "\n").utf8)
        return address.withUnsafeBytes { address in
            guard let name = address.baseAddress?.assumingMemoryBound(to: sockaddr.self) else { return false }
            let length = socklen_t(address.count)
            var sent = sendto(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL), name, length)
            while sent < 0, errno == EINTR {
                sent = sendto(descriptor, bytes, bytes.count, CInt(MSG_NOSIGNAL), name, length)
            }
            return sent == bytes.count
        }
    }

    /// Now, as `MONOTONIC_USEC` wants it.
    package static var monotonicTime: UInt64 { MonotonicTime.now.nanoseconds / 1_000 }

    /// A path, or with `@` a name in the abstract namespace; nil for anything else, and for what is too long (unix(7)).
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

    private static func microseconds(_ time: Duration) -> Int64 {
        time.components.seconds * 1_000_000 + time.components.attoseconds / 1_000_000_000_000
    }
}
