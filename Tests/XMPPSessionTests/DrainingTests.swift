import NIOCore
import NIOEmbedded
import Telemetry
import Testing

@testable import XMPPSession

@MainActor @Suite("Streams that the peer drains and does not close")
struct DrainingTests {
    @Test("two may drain; for a third the oldest has to go, and so on")
    func policy() {
        var streams = DrainingStreams()
        #expect(streams.began(1) == nil)
        #expect(streams.began(2) == nil)
        #expect(streams.began(3) == 1)
        streams.ended(1)
        #expect(streams.count == 2)
        #expect(streams.began(4) == 2)
        streams.ended(3)
        streams.ended(2)
        #expect(streams.count == 1)
        #expect(streams.began(5) == nil)
        streams.ended(77)
        #expect(streams.count == 2)
    }

    @Test("one that the peer leaves open is closed after ten minutes, in order: its messages are acked first")
    func drainingLimit() throws {
        var settings = try Bench.settings()
        // Pings would not be answered here.
        settings.keepaliveInterval = .seconds(86_400)
        let bench = try Bench.bound(settings)
        defer { bench.finish() }
        try bench.read(Server.drainingControl)
        #expect(bench.gauges == [0, 0, 1])
        let messages = try bench.deliver("1")
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(599))
        #expect(bench.isReading)
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(!bench.isReading)
        #expect(try bench.written() == "")
        bench.handler.settled(messages)
        let sent = try bench.written()
        #expect(sent.contains("\"message_id\":\"1\"") && sent.hasSuffix(Server.closingTag))
        try bench.read(Server.closingTag)
        #expect(bench.end?.reason == .streamClosed && bench.acksSent == 1)
    }
}
