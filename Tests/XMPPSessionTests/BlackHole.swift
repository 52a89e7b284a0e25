import NIOCore
import NIOPosix

/// An address of the loopback interface that answers no connection: nobody accepts there and the queue is full, so that the
/// kernel drops what comes.
struct BlackHole {
    private let listener: any Channel
    private let waiting: [any Channel]
    let port: Int

    static func open() async throws -> BlackHole {
        let listener = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 0)
            .serverChannelOption(.autoRead, value: false)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = listener.localAddress?.port ?? 0
        var waiting: [any Channel] = []
        // Until one is not answered.
        while waiting.count < 16 {
            do {
                let client = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                    .connectTimeout(.milliseconds(200))
                    .connect(host: "127.0.0.1", port: port).get()
                waiting.append(client)
            } catch {
                return BlackHole(listener: listener, waiting: waiting, port: port)
            }
        }
        throw Deadline()
    }

    func close() async throws {
        for channel in waiting + [listener] { try await channel.close().get() }
    }
}
