import Foundation

/// The socket of a service manager, as systemd's is: datagrams of `NAME=value` lines (sd_notify(3)).
package final class NotifySocket: @unchecked Sendable {
    // For one thread at a time: tests ask one after the other.
    private let descriptor: Int32
    private let path: String?
    private var received: [String] = []

    /// What `NOTIFY_SOCKET` is set to.
    package let name: String

    /// A socket at this path, or with `@` in the abstract namespace.
    ///
    /// - Throws: ``WaitedTooLong`` where it can't be bound.
    package init(_ name: String) throws {
        self.name = name
        path = name.hasPrefix("/") ? name : nil
        descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
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
    }

    deinit {
        close(descriptor)
        if let path { unlink(path) }
    }

    /// Every datagram so far, in the order of their arrival.
    package var messages: [String] {
        var buffer = [UInt8](repeating: 0, count: 4096)
        while true {
            let count = recv(descriptor, &buffer, buffer.count, Int32(MSG_DONTWAIT))
            guard count >= 0 else { return received }
            received.append(String(decoding: buffer[..<count], as: UTF8.self))
        }
    }

    /// How many datagrams were exactly this.
    package func count(_ message: String) -> Int { messages.count { $0 == message } }

    /// Waits for a datagram that begins like this.
    package func wait(for start: String, count: Int = 1) async throws {
        try await waitUntil("\(count) × \(start)") { messages.count { $0.hasPrefix(start) } >= count }
    }
}
