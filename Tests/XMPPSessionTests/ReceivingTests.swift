import Ingest
import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import XMPPSession

@MainActor @Suite("A bound stream: copies in, acks out")
struct ReceivingTests {
    @Test("What one socket read brings is handed over in one piece, at its end")
    func onePieceForARead() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        bench.channel.pipeline.fireChannelRead(ByteBuffer(string: Server.message("1") + Server.message("2")))
        bench.channel.pipeline.fireChannelRead(ByteBuffer(string: Server.message("3")))
        #expect(bench.inFlight == 0)
        bench.channel.pipeline.fireChannelReadComplete()
        #expect(bench.inFlight == 3)
        let messages = bench.submitted()
        #expect(messages.map(Bench.id) == ["1", "2", "3"])
        #expect(Set(messages.map(\.receivedAt)).count == 3)
        #expect(bench.metrics.messages.snapshot().received(.upstream) == 3)
    }

    @Test("A copy is counted as received before any writer can have it (G8)")
    func countedBeforeHandedOver() async throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let (queue, books) = (bench.queue, bench.metrics.messages)
        // A writer as quick as can be: it has the batch before `submit` returns.
        let writer = Task.detached(executorPreference: AtOnce()) {
            let count = await queue.next()?.messages.count ?? 0
            let before = books.snapshot()
            books.settled(count: count) { _ in (CategoryLabels.other, .stored) }
            return (count, before, after: books.snapshot())
        }
        try bench.read(Server.message("1"), Server.gcm(#"{"from":"token"}"#))
        let (count, before, after) = await writer.value
        #expect(count == 2)
        #expect(before.received == [1, 0, 1] && before.inFlight == 2, "\(before)")
        #expect(after.received == [1, 0, 1] && after.inFlight == 0 && after.settled(.stored) == 2, "\(after)")
    }

    @Test("No ack before the copy is settled; then all of a batch in one write")
    func acksAfterSettling() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2", "3")
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(5))
        #expect(try bench.writes() == [])
        #expect(bench.acksSent == 0)
        bench.handler.settled(messages)
        let writes = try bench.writes()
        #expect(writes.count == 1)
        #expect(writes.joined().occurrences(of: #""message_type":"ack""#) == 3)
        for id in 1...3 { #expect(writes.joined().contains(#""to":"token-\#(id)","message_id":"\#(id)""#)) }
        #expect(bench.acksSent == 3)
        #expect(bench.acksGone == 0)
    }

    @Test("Copies without a usable id are settled without an ack")
    func malformedCopiesAreNotAcked() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read(Server.gcm(#"{"from":"token","category":"c"}"#), Server.message("1"))
        let messages = bench.submitted()
        #expect(messages.map(\.answer.isSent) == [false, true])
        bench.handler.settled(messages)
        #expect(try bench.written().occurrences(of: "message_id") == 1)
        #expect(bench.acksSent == 1)
        #expect(bench.metrics.messages.snapshot().received(.malformed) == 1)
        #expect(bench.handler.bound?.session.isSettled == true)
    }

    @Test("What settles after the end counts as gone, and nothing is written")
    func settledAfterTheEnd() throws {
        let bench = try Bench.bound()
        try bench.read(Server.message("1"), Server.message("2"), Server.gcm(#"{"from":"token"}"#))
        let messages = bench.submitted()
        bench.finish()
        #expect(bench.end?.reason == .connectionLost)
        bench.handler.settled(messages)
        #expect(bench.acksGone == 2)
        #expect(bench.acksSent == 0)
        #expect(try bench.writes() == [])
    }

    @Test("An ack whose write fails counts as gone, not as sent")
    func failedWrite() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let messages = try bench.deliver("1")
        try bench.channel.pipeline.syncOperations.addHandler(RefusingWrites(), position: .first)
        bench.handler.settled(messages)
        #expect(bench.acksGone == 1)
        #expect(bench.acksSent == 0)
    }

    @Test("At the window's limit reading stops; with half of it free it goes on")
    func window() throws {
        let bench = try Bench.bound(try Bench.settings(window: 8))
        defer { bench.finish() }
        let limit = InFlightWindow(window: 8).messageLimit
        let ids = (1..<limit).map(String.init)
        try bench.channel.writeInbound(ByteBuffer(string: ids.map { Server.message($0) }.joined()))
        #expect(bench.isReading)
        try bench.read(Server.message("last"))
        #expect(!bench.isReading)
        let messages = bench.submitted()
        #expect(messages.count == limit)
        bench.handler.settled(Array(messages.prefix(limit - limit / 2 - 1)))
        #expect(!bench.isReading)
        bench.handler.settled([messages[limit - limit / 2 - 1]])
        #expect(bench.isReading)
        #expect(bench.acksSent == UInt64(limit - limit / 2))
    }

    @Test("A peer that takes no acks is not read from, until it does")
    func peerThatTakesNothing() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        bench.channel.isWritable = false
        bench.channel.pipeline.fireChannelWritabilityChanged()
        #expect(!bench.isReading)
        bench.channel.isWritable = true
        bench.channel.pipeline.fireChannelWritabilityChanged()
        #expect(bench.isReading)
    }

    @Test("A draining stream asks once for a replacement and goes on receiving and acking until the peer closes it")
    func draining() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let before = try bench.deliver("1")
        try bench.read(Server.drainingControl)
        guard case .draining? = bench.turn else {
            Issue.record("no replacement was asked for: \(String(describing: bench.turn))")
            return
        }
        #expect(bench.gauges == [0, 0, 1])
        try bench.read(Server.drainingControl)
        #expect(bench.metrics.stanzas[.control].value == 2)
        #expect(bench.isReading)
        let after = try bench.deliver("2")
        bench.handler.settled(before + after)
        #expect(bench.acksSent == 2)
        #expect(try bench.writes().count == 1)
        #expect(bench.end == nil)
        try bench.read(Server.closingTag)
        #expect(bench.end?.reason == .streamClosed)
    }

    @Test("What is not the server's is counted and goes nowhere; a ping is answered")
    func otherStanzas() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read(
            Server.message("9").replacing("<message ", with: "<message from='eve@fcm.example.org.evil.example' "),
            "<presence/>",
            Server.gcm(#"{"message_type":"ack","message_id":"x","from":"t"}"#)
        )
        #expect(bench.inFlight == 0)
        #expect(bench.metrics.stanzas[.untrusted].value == 1)
        #expect(bench.metrics.stanzas[.other].value == 1)
        #expect(bench.metrics.stanzas[.ack].value == 1)
        #expect(try bench.writes() == [])
        try bench.read("<iq type='get' id='p1' from='fcm.example.org'><ping xmlns='urn:xmpp:ping'/></iq>")
        let answer = try bench.written()
        #expect(answer.contains("type=\"result\"") && answer.contains("p1"))
    }
}

/// Fails every write, as a socket does whose peer has gone.
private final class RefusingWrites: ChannelOutboundHandler, Sendable {
    typealias OutboundIn = ByteBuffer

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        promise?.fail(ChannelError.ioOnClosedChannel)
    }
}

extension String {
    /// How often a text occurs.
    func occurrences(of text: String) -> Int { ranges(of: text).count }
}

/// Runs whatever is resumed on it at once, inside the call that resumes it.
private final class AtOnce: TaskExecutor {
    func enqueue(_ job: consuming ExecutorJob) {
        UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor())
    }
}
