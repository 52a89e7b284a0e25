import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import XMPP

@testable import XMPPSession

@MainActor @Suite("Streams that the peer drains and does not close")
struct DrainingTests {
    @Test("two may drain; for a third the oldest has to go, and so on")
    func policy() {
        var streams = DrainingStreams<String>()
        #expect(streams.began(1, "a") == nil)
        #expect(streams.began(2, "b") == nil)
        #expect(streams.began(3, "c") == "a")
        #expect(streams.ended(1) == true)
        #expect(streams.all == ["b", "c"])
        #expect(streams.began(4, "d") == "b")
        #expect(streams.ended(3) == false)
        #expect(streams.ended(2) == true)
        #expect(streams.ended(2) == false)
        #expect(streams.all == ["d"])
        #expect(streams.began(5, "e") == nil)
        #expect(streams.ended(77) == false)
        #expect(streams.all == ["d", "e"])
    }

    @Test("one that the peer leaves open is closed after ten minutes, in order: its messages are acked first")
    func drainingLimit() throws {
        var settings = try Bench.settings()
        // Pings would not be answered here.
        settings.stream.keepaliveInterval = .seconds(86_400)
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
