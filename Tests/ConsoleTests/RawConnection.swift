import Foundation
import Glibc

/// A TCP connection to the console whose bytes a test writes itself.
final class RawConnection: @unchecked Sendable {
    private let descriptor: Int32

    init(_ port: Int) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard status == 0 else { throw POSIXError(.ECONNREFUSED) }
        // A server that neither reads nor closes must not hold a test up for ever.
        var limit = timeval(tv_sec: 20, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    }

    deinit { close(descriptor) }

    /// Writes as much as the other side takes; false once it has closed.
    @discardableResult
    func write(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        var sent = 0
        while sent < bytes.count {
            let count = send(descriptor, Array(bytes[sent...]), bytes.count - sent, Int32(MSG_NOSIGNAL))
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    /// Waits until something can be read, or the connection has ended.
    func wait() -> Bool {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        return poll(&event, 1, 20_000) > 0
    }

    /// The next bytes; empty at the end, nil where nothing comes for 20 s.
    func read() -> String? {
        var event = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
        guard poll(&event, 1, 20_000) > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: 64 << 10)
        let count = recv(descriptor, &bytes, bytes.count, 0)
        return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    }

    /// Everything up to the end of the connection; nil where it does not end.
    func readToEnd() -> String? {
        var text = ""
        while true {
            guard let part = read() else { return nil }
            if part.isEmpty { return text }
            text += part
        }
    }

    /// One answer whose body is as long as it says.
    func answer() -> String? {
        var text = ""
        while true {
            if let end = text.range(of: "\r\n\r\n") {
                let length = text[..<end.lowerBound].split(separator: "\r\n").first {
                    $0.lowercased().hasPrefix("content-length:")
                }
                let count = length.flatMap { Int($0.split(separator: " ").last ?? "") } ?? 0
                if text[end.upperBound...].utf8.count >= count { return text }
            }
            guard let part = read(), !part.isEmpty else { return text.isEmpty ? nil : text }
            text += part
        }
    }

    /// Sends bytes on a connection of their own, and gives all that comes back.
    static func exchange(_ port: Int, _ text: String) throws -> String? {
        let connection = try RawConnection(port)
        connection.write(text)
        return connection.readToEnd()
    }
}
