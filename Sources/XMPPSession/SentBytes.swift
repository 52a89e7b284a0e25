import Glibc
import NIOCore
import XMPP

extension Channel {
    /// The bytes written to this TCP connection, to be asked for on its event loop; nil for another transport.
    var sentBytes: SentBytes? {
        guard let socket = self as? any SocketOptionProvider else { return nil }
        var info: SIMD64<UInt32>?
        // 256 bytes, of which the kernel fills as many as its struct tcp_info has (linux/tcp.h); glibc's ends before these.
        let future: EventLoopFuture<SIMD64<UInt32>> = socket.unsafeGetSocketOption(
            level: .tcp,
            name: NIOBSDSocket.Option(rawValue: CInt(TCP_INFO))
        )
        // Complete already.
        future.assumeIsolated().whenSuccess { info = $0 }
        guard let info else { return nil }
        func word(_ offset: Int) -> UInt64 { UInt64(info[offset / 4]) | UInt64(info[offset / 4 + 1]) << 32 }
        // tcpi_bytes_acked; tcpi_bytes_sent, tcpi_bytes_retrans, tcpi_notsent_bytes.
        let acked = word(120)
        let written = word(200) &- word(208) &+ UInt64(info[144 / 4])
        let buffered = (try? syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
        return SentBytes(
            acked: acked,
            waiting: UInt64(clamping: Int64(bitPattern: written &- acked)) + UInt64(buffered)
        )
    }
}
