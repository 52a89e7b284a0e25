import Glibc

/// Ports of the loopback address that nobody uses at the moment.
///
/// Below those that the kernel gives to outgoing connections, so that none of these takes one before it is listened on.
///
/// - Throws: ``WaitedTooLong`` where there is none.
package func freePorts(_ count: Int) throws -> [Int] {
    var sockets: [Int32] = []
    defer { for socket in sockets { close(socket) } }
    return try (0..<count).map { _ in
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        sockets.append(descriptor)
        for _ in 0..<1_000 {
            let port = UInt16.random(in: 12_000..<32_000)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            address.sin_port = port.bigEndian
            let result = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            if result == 0 { return Int(port) }
        }
        throw WaitedTooLong(description: "no free port")
    }
}
