import IntegrationSupport
import Logging
import NIOCore
import NIOEmbedded
import Synchronization
import TLSWire
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import Ingest
@testable import XMPPSession

/// A slot that fetches the offline store, on an event loop with a clock of its own; the test is the server of all its
/// connections, one after the other.
@MainActor
final class SlotBench {
    /// A connection, as its server sees it.
    @MainActor
    struct Peer {
        let channel: EmbeddedChannel

        func say(_ texts: String...) throws {
            try channel.writeInbound(ByteBuffer(string: texts.joined()))
            channel.embeddedEventLoop.run()
        }

        /// Everything that was sent since the last call.
        func heard() throws -> String {
            channel.embeddedEventLoop.run()
            var text = ""
            while let buffer = try channel.readOutbound(as: ByteBuffer.self) { text += String(buffer: buffer) }
            return text
        }

        /// Binds the stream, and grants stream management; returns what was sent first.
        func bind(_ enabled: String = "<enabled xmlns='urn:xmpp:sm:3'/>") throws -> String {
            #expect(try heard().contains("<bind "))
            try say(Server.bindResult)
            let greeting = try heard()
            try say(enabled)
            return greeting
        }

        /// Answers the query in what was sent, and returns what comes then.
        func answer(_ query: String, _ content: String = "") throws -> String {
            let id = try #require(query.matches(of: /id="([^"]*-offline-\d+)"/).last).1
            try say("<iq type='result' id='\(id)'>\(content)</iq>")
            return try heard()
        }

        /// Ends the stream as its other side has.
        func close() throws {
            try say(Server.closingTag)
            lose()
        }

        func lose() {
            if channel.isActive { channel.close(promise: nil) }
            channel.embeddedEventLoop.run()
        }
    }

    /// Made and used on the one thread.
    private final class Channels: Sendable {
        let all = Mutex<[EmbeddedChannel]>([])
    }

    static let features =
        "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"

    let loop = EmbeddedEventLoop()
    let queue = IngestQueue()
    let metrics = Metrics(senders: ["42"], categories: [], handlers: [], version: "test")
    let logs = MemoryLogOutput()
    private let channels = Channels()
    private let slot: ConnectionSlot
    private var taken = 0

    init(resume: Duration = .zero) throws {
        var settings = try Bench.settings(dialect: .xmpp)
        settings.stream.trustedFrom = ["42@fcm.example.org"]
        settings.stream.resume = resume
        let address = try SocketAddress(ipAddress: "127.0.0.1", port: 1)
        settings.transport = { [channels] _, _, eventLoop in
            guard let loop = eventLoop as? EmbeddedEventLoop else { return eventLoop.makeFailedFuture(Deadline()) }
            let channel = EmbeddedChannel(handlers: [], loop: loop)
            channel.connect(to: address, promise: nil)
            channels.all.withLock { $0.append(channel) }
            return eventLoop.makeSucceededFuture(channel)
        }
        let clock = ArrivalClock()
        let logger = Logger.lines(label: "test", level: .info, format: .json, output: logs)
        var environment = Connection.Environment(ingest: queue, clock: clock, metrics: metrics)
        environment.random = RandomSource { 0 }
        slot = ConnectionSlot(
            settings: SharedSettings(settings),
            on: loop,
            environment: environment,
            gate: OpeningGate(),
            retrieval: OfflineRetrieval(clock: clock, logger: logger),
            logger: logger
        )
        slot.start()
    }

    /// Takes the next connection, which has waited at most for the least delay, and lets it sign in.
    func accept() throws -> Peer {
        loop.advanceTime(by: .milliseconds(100))
        let channel = channels.all.withLock { $0.dropFirst(taken).first }
        let peer = Peer(channel: try #require(channel, "no connection \(taken + 1)"))
        taken += 1
        peer.channel.pipeline.fireUserInboundEventTriggered(TLSEvent.established(version: "TLSv1.3", cipher: "x"))
        try peer.say(Server.header, Server.mechanisms)
        try peer.say(Server.success)
        _ = try peer.heard()
        try peer.say(Server.header, Self.features)
        return peer
    }

    /// How many connections were opened.
    var opened: Int { channels.all.withLock { $0.count } }

    /// The copies that were handed over.
    func batch() throws -> IngestBatch { try #require(queue.take()) }

    func gauge(_ state: ConnectionState) -> Int { metrics.connections(sender: 0, state: state).value }

    /// The counts in the log's lines with this event.
    func counts(_ event: EventName) -> [Int] {
        logs.lines.filter { $0.contains("\"\(event.rawValue)\"") }.compactMap { line in
            line.firstMatch(of: /"count":(\d+)/).flatMap { Int($0.1) }
        }
    }

    func shutDown() {
        slot.shutDown()
        loop.run()
    }

    /// Ends the slot with all its connections.
    func finish() {
        shutDown()
        for channel in channels.all.withLock({ $0 }) { Peer(channel: channel).lose() }
        loop.run()
        #expect(ConnectionState.allCases.allSatisfy { gauge($0) == 0 })
    }
}
