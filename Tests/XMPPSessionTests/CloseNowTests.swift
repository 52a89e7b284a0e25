import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import UpstreamKit
import XMPP

@testable import XMPPSession

@MainActor @Suite("The end of the time for an orderly end: goodbyes although copies are under way")
struct CloseNowTests {
    @Test("what has committed is acked, what has not is not; the closing tags cross, and later commits count as gone")
    func unsettled() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2")
        bench.handler.shutDown()
        bench.handler.settled([messages[0]])
        #expect(try bench.written().contains(#""message_id":"1""#))
        bench.handler.closeNow()
        #expect(try bench.written() == Bench.closingTag)
        bench.handler.closeNow()
        bench.handler.settled([messages[1]])
        #expect(try bench.writes() == [])
        #expect(bench.acksSent == 1 && bench.acksGone == 1)
        try bench.read(Bench.closingTag)
        #expect(!bench.channel.isActive && bench.end?.reason == .streamClosed)
    }

    @Test(
        "a stream that nobody asked to end before is ended by it as well, and a peer's silence is waited for two seconds"
    )
    func openStream() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        _ = try bench.deliver("1")
        bench.handler.closeNow()
        #expect(try bench.written() == Bench.closingTag)
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(2))
        #expect(!bench.channel.isActive)
    }

    @Test("under stream management the last word says how far we answer: to the first copy that has not committed")
    func lastAnswer() throws {
        var settings = try Bench.settings(dialect: .xmpp)
        settings.trustedFrom = ["42@fcm.example.org"]
        let bench = try Bench(settings)
        defer { bench.finish() }
        try bench.connect()
        try bench.establishTLS()
        try bench.read(Bench.header, Bench.mechanisms)
        try bench.read(Bench.success)
        let features =
            "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"
        try bench.read(Bench.header, features)
        try bench.read(Bench.bindResult)
        try bench.read("<enabled xmlns='urn:xmpp:sm:3'/>")
        _ = try bench.writes()
        let stanzas = ["1", "2"].map {
            Bench.message($0).replacing("<message id=''", with: "<message from='42@fcm.example.org/phone'")
                .replacing("\"", with: "&quot;")
        }
        try bench.read(stanzas.joined())
        let messages = bench.submitted()
        #expect(messages.count == 2)
        bench.handler.shutDown()
        bench.handler.settled([messages[0]])
        _ = try bench.writes()
        bench.handler.closeNow()
        #expect(try bench.written() == "<a xmlns=\"urn:xmpp:sm:3\" h=\"1\"/>" + Bench.closingTag)
    }
}
