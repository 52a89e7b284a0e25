import NIOCore
import NIOPosix
import Synchronization

/// A name server of the tests: service records of names that a test gives it, over UDP and TCP on the loopback address.
///
/// It writes its messages by itself, without the code that reads them.
package final class NameServer: Sendable {
    /// What it says to a question.
    package enum Reply: Sendable {
        /// These records: priority, weight, port and target each.
        case records([(priority: UInt16, weight: UInt16, port: UInt16, target: String)])
        /// The name stands for another, whose records follow.
        case alias(String, [(priority: UInt16, weight: UInt16, port: UInt16, target: String)])
        /// An error: 2 its own failure, 3 no such name, 5 refused.
        case code(UInt8)
        /// Nothing.
        case silence
        /// Over UDP that the answer does not fit, over TCP the answer.
        indirect case long(Reply)
        /// These bytes behind a header that answers.
        case bytes([UInt8])
    }

    /// A question that came.
    package struct Question: Sendable, Equatable {
        /// The name, without a dot at its end.
        package var name: String
        /// Whether it came over TCP.
        package var isTCP: Bool

        package init(name: String, isTCP: Bool) {
            self.name = name
            self.isTCP = isTCP
        }
    }

    private struct State {
        var zone: [String: Reply]
        var questions: [Question] = []
    }

    private let state: Mutex<State>
    private let udp: any Channel
    private let tcp: any Channel
    /// The port of both.
    package let port: Int

    private init(state: sending State, udp: any Channel, tcp: any Channel) {
        self.state = Mutex(state)
        (self.udp, self.tcp) = (udp, tcp)
        port = tcp.localAddress?.port ?? 0
    }

    /// Starts one that knows these names; of others it says that there are none.
    package static func start(_ zone: [String: Reply]) async throws -> NameServer {
        let holder = Holder()
        let group = MultiThreadedEventLoopGroup.singleton
        let tcp = try await ServerBootstrap(group: group)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(TCPHandler(holder))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let udp = try await DatagramBootstrap(group: group)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(UDPHandler(holder))
                }
            }
            .bind(host: "127.0.0.1", port: tcp.localAddress?.port ?? 0).get()
        let server = NameServer(state: State(zone: zone), udp: udp, tcp: tcp)
        holder.server.withLock { $0 = server }
        return server
    }

    /// Changes what it says about a name.
    package func set(_ name: String, _ reply: Reply) { state.withLock { $0.zone[name] = reply } }

    /// The questions so far.
    package var questions: [Question] { state.withLock { $0.questions } }

    /// Ends it.
    package func stop() async throws {
        try await udp.close().get()
        try await tcp.close().get()
    }

    /// The answer to a message; nil for silence.
    fileprivate func answer(_ message: [UInt8], isTCP: Bool) -> [UInt8]? {
        guard message.count > 16 else { return nil }
        var labels: [String] = []
        var index = 12
        while index < message.count, message[index] != 0 {
            let end = index + 1 + Int(message[index])
            guard end <= message.count else { return nil }
            labels.append(String(decoding: message[(index + 1)..<end], as: UTF8.self).lowercased())
            index = end
        }
        let question = Array(message[12..<(index + 5)])
        let name = labels.joined(separator: ".")
        let reply = state.withLock { state in
            state.questions.append(Question(name: name, isTCP: isTCP))
            return state.zone[name] ?? .code(3)
        }
        return NameServer.message(reply, id: Array(message[..<2]), question: question, isTCP: isTCP)
    }

    private static func message(_ reply: Reply, id: [UInt8], question: [UInt8], isTCP: Bool) -> [UInt8]? {
        switch reply {
        case .silence: return nil
        case .code(let code): return id + [0x81, 0x80 | code] + counts(0) + question
        case .bytes(let bytes): return id + [0x81, 0x80] + counts(1) + question + bytes
        case .long(let reply):
            guard isTCP else { return id + [0x83, 0x80] + counts(0) + question }
            return message(reply, id: id, question: question, isTCP: true)
        case .records(let records):
            return id + [0x81, 0x80] + counts(records.count) + question
                + records.flatMap { record([0xc0, 12], 33, service($0)) }
        case .alias(let other, let records):
            let owner = name(other)
            return id + [0x81, 0x80] + counts(records.count + 1) + question + record([0xc0, 12], 5, owner)
                + records.flatMap { record(owner, 33, service($0)) }
        }
    }

    private static func counts(_ answers: Int) -> [UInt8] { [0, 1] + number(answers) + [0, 0, 0, 0] }
    private static func number(_ value: Int) -> [UInt8] { [UInt8(value >> 8), UInt8(value & 255)] }

    private static func service(
        _ record: (priority: UInt16, weight: UInt16, port: UInt16, target: String)
    ) -> [UInt8] {
        number(Int(record.priority)) + number(Int(record.weight)) + number(Int(record.port)) + name(record.target)
    }

    private static func record(_ owner: [UInt8], _ type: Int, _ data: [UInt8]) -> [UInt8] {
        owner + number(type) + [0, 1, 0, 0, 0, 60] + number(data.count) + data
    }

    /// A name's labels with their lengths; "." is the root.
    package static func name(_ text: String) -> [UInt8] {
        text.split(separator: ".").flatMap { [UInt8($0.utf8.count)] + $0.utf8 } + [0]
    }
}

/// Leads the handlers to their server, which is made after them.
private final class Holder: Sendable {
    let server = Mutex<NameServer?>(nil)
    func answer(_ message: [UInt8], isTCP: Bool) -> [UInt8]? {
        server.withLock { $0 }?.answer(message, isTCP: isTCP)
    }
}

private final class UDPHandler: ChannelInboundHandler {
    typealias InboundIn = AddressedEnvelope<ByteBuffer>
    typealias OutboundOut = AddressedEnvelope<ByteBuffer>
    private let holder: Holder
    init(_ holder: Holder) { self.holder = holder }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let envelope = unwrapInboundIn(data)
        guard let answer = holder.answer(Array(envelope.data.readableBytesView), isTCP: false) else { return }
        let reply = AddressedEnvelope(remoteAddress: envelope.remoteAddress, data: ByteBuffer(bytes: answer))
        context.writeAndFlush(wrapOutboundOut(reply), promise: nil)
    }
}

private final class TCPHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer
    private let holder: Holder
    private var received: [UInt8] = []
    init(_ holder: Holder) { self.holder = holder }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        received += unwrapInboundIn(data).readableBytesView
        guard received.count >= 2 else { return }
        let length = Int(received[0]) << 8 | Int(received[1])
        guard received.count >= 2 + length else { return }
        let message = Array(received[2..<(2 + length)])
        received.removeAll()
        guard let answer = holder.answer(message, isTCP: true) else { return }
        var buffer = ByteBuffer()
        buffer.writeInteger(UInt16(answer.count))
        buffer.writeBytes(answer)
        context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    }
}
