import NIOCore
import NIOPosix
import Synchronization

/// A collector that accepts and discards every export, so that a measured worker's spans go somewhere.
final class Collector: Sendable {
    private let channel: any Channel
    private let received = Atomic<Int>(0)

    /// Listens on a free loopback port.
    static func start() async throws -> Collector {
        let count = Mutex<(@Sendable (Int) -> Void)?>(nil)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let add = count.withLock { $0 }
                    try channel.pipeline.syncOperations.addHandler(ExportSink { add?($0) })
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let collector = Collector(channel)
        count.withLock { $0 = { collector.received.add($0, ordering: .relaxed) } }
        return collector
    }

    private init(_ channel: any Channel) { self.channel = channel }

    var endpoint: String { "http://127.0.0.1:\(channel.localAddress?.port ?? 0)" }

    /// The total size of all bodies.
    var bytes: Int { received.load(ordering: .relaxed) }

    func stop() async { try? await channel.close() }
}

/// Answers each request once its body is complete; as much HTTP as our exporter needs.
private final class ExportSink: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    private static let headEnd = Array("\r\n\r\n".utf8)
    private var head: [UInt8] = []
    /// The rest of the body; nil while the head is read.
    private var left: Int?
    private let took: (Int) -> Void

    init(_ took: @escaping (Int) -> Void) { self.took = took }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let bytes = Array(unwrapInboundIn(data).readableBytesView)
        var place = 0
        while place < bytes.count {
            if let left {
                let part = min(left, bytes.count - place)
                place += part
                took(part)
                self.left = left - part
            } else {
                head.append(bytes[place])
                place += 1
                guard head.suffix(4) == Self.headEnd[...] else { continue }
                left = Self.length(head)
                head = []
            }
            guard left == 0 else { continue }
            left = nil
            let answer = ByteBuffer(string: "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
        }
    }

    private static func length(_ head: [UInt8]) -> Int {
        let lines = String(decoding: head, as: UTF8.self).lowercased().split(whereSeparator: \.isNewline)
        let name = "content-length:"
        let value = lines.first { $0.hasPrefix(name) }?.dropFirst(name.count).filter { $0 != " " }
        return value.flatMap { Int($0) } ?? 0
    }
}
