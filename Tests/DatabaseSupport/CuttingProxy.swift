package import Foundation
import Synchronization

/// A relay before PostgreSQL's unix socket that can swallow a reply and break the connection off.
package final class CuttingProxy: Sendable {
    /// Where its socket is.
    package let folder: URL
    private let listener: Int32
    private let cuts = Mutex(false)
    private let swallows = Mutex(false)
    private let isSilent = Mutex(false)

    /// Relays to a server's socket; throws what the system says.
    package init(to server: URL) throws {
        folder = URL(filePath: "/tmp/upstream-proxy-\(getpid())-\(UInt32.random(in: 0...UInt32.max))")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        listener = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        let bound = CuttingProxy.withAddress(folder.appending(path: ".s.PGSQL.5432").path) { bind(listener, $0, $1) }
        guard bound == 0, listen(listener, 8) == 0 else { throw POSIXError(.EADDRINUSE) }
        Thread.detachNewThread { [self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                let upstream = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
                guard CuttingProxy.withAddress(server.path, { connect(upstream, $0, $1) }) == 0 else { return }
                Thread.detachNewThread { self.relay(from: client, to: upstream, isReply: false) }
                Thread.detachNewThread { self.relay(from: upstream, to: client, isReply: true) }
            }
        }
    }

    /// The next bytes from the server are thrown away and the connection ends.
    package func cutNextReply() { cuts.withLock { $0 = true } }

    /// The next bytes from the server are thrown away; the connection stands, and the server thinks it has answered.
    package func swallowNextReply() { swallows.withLock { $0 = true } }

    /// From now on nothing passes, either way; connections are accepted still, and stand.
    package func fallSilent() { isSilent.withLock { $0 = true } }

    /// Takes no more connections.
    package func close() {
        shutdown(listener, Int32(SHUT_RDWR))
        try? FileManager.default.removeItem(at: folder)
    }

    private func relay(from source: Int32, to target: Int32, isReply: Bool) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(source, &buffer, buffer.count)
            let isCut =
                isReply && count > 0
                && cuts.withLock { flag in
                    defer { flag = false }
                    return flag
                }
            guard count > 0, !isCut else { break }
            let isSwallowed =
                isReply
                && swallows.withLock { flag in
                    defer { flag = false }
                    return flag
                }
            if isSwallowed || isSilent.withLock({ $0 }) { continue }
            var sent = 0
            while sent < count {
                let more = buffer[sent..<count].withUnsafeBytes {
                    send(target, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard more > 0 else { break }
                sent += more
            }
        }
        shutdown(source, Int32(SHUT_RDWR))
        shutdown(target, Int32(SHUT_RDWR))
    }

    private static func withAddress(_ path: String, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { body($0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
    }
}
