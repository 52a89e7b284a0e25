import NIOCore
import NIOEmbedded
import Telemetry
import Testing

@testable import XMPPSession

@MainActor @Suite("Closing now: goodbyes while messages are in flight")
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
        #expect(try bench.written() == Server.closingTag)
        bench.handler.closeNow()
        bench.handler.settled([messages[1]])
        #expect(try bench.writes() == [])
        #expect(bench.acksSent == 1 && bench.acksGone == 1)
        try bench.read(Server.closingTag)
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
        #expect(try bench.written() == Server.closingTag)
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(2))
        #expect(!bench.channel.isActive)
    }

    @Test("under stream management the last word says how far we answer: to the first copy that has not committed")
    func lastAnswer() throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        bench.handler.shutDown()
        bench.handler.settled([messages[0]])
        _ = try bench.writes()
        bench.handler.closeNow()
        #expect(try bench.written() == ManagementTests.ack(1) + Server.closingTag)
    }
}
