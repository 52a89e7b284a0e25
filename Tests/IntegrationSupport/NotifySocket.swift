import Foundation
import Synchronization

/// The socket of a service manager, as systemd's is: datagrams of `NAME=value` lines (sd_notify(3)).
///
/// A thread reads it all the time, as a manager does: the kernel keeps only ten datagrams (`net.unix.max_dgram_qlen`).
package final class NotifySocket: Sendable {
    /// The descriptor and what came through it, which the thread may hold on to for a moment longer.
    private final class Reader: Sendable {
        let descriptor: Int32
        private let received = Mutex<[String]>([])

        init(_ descriptor: Int32) { self.descriptor = descriptor }
        deinit { close(descriptor) }

        /// Reads what is there.
        var lines: [String] {
            received.withLock { received in
                var buffer = [UInt8](repeating: 0, count: 4096)
                while true {
                    let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
                    guard count > 0 else { return received }
                    received += String(decoding: buffer[..<count], as: UTF8.self).split(separator: "\n").map(
                        String.init
                    )
                }
            }
        }

        /// Reads until the socket is shut down.
        func run() {
            while true {
                var waiting = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
                guard poll(&waiting, 1, -1) >= 0 || errno == EINTR, waiting.revents & Int16(POLLHUP) == 0 else {
                    return
                }
                _ = lines
            }
        }
    }

    private let reader: Reader
    private let path: String?

    /// What `NOTIFY_SOCKET` is set to.
    package let name: String

    /// A socket at this path, or with `@` in the abstract namespace.
    ///
    /// With `isRead` false it is a manager that hangs: only what a test asks for is read.
    ///
    /// - Throws: ``WaitedTooLong`` where it can't be bound.
    package init(_ name: String, isRead: Bool = true) throws {
        self.name = name
        path = name.hasPrefix("/") ? name : nil
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        reader = Reader(descriptor)
        var bytes = Array(name.utf8)
        if path == nil { bytes[0] = 0 } else { bytes.append(0) }
        let address = withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) } + bytes
        let result = address.withUnsafeBytes { address in
            bind(
                descriptor,
                address.baseAddress?.assumingMemoryBound(to: sockaddr.self),
                socklen_t(address.count)
            )
        }
        guard result == 0 else { throw WaitedTooLong(description: "cannot bind \(name): \(errno)") }
        if isRead { Thread { [reader] in reader.run() }.start() }
    }

    deinit {
        shutdown(reader.descriptor, Int32(SHUT_RDWR))
        if let path { unlink(path) }
    }

    /// Every line so far, in the order of their arrival.
    package var messages: [String] { reader.lines }

    /// How many lines were exactly this.
    package func count(_ message: String) -> Int { messages.count { $0 == message } }

    /// Waits for a line that begins like this.
    package func wait(for start: String, count: Int = 1) async throws {
        try await waitUntil("\(count) × \(start)") { messages.count { $0.hasPrefix(start) } >= count }
    }
}
