import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import XMLWire
import XMPP

@testable import XMPPSession

@MainActor @Suite("How a bound stream ends")
struct EndingTests {
    @Test("In order: reading stops, what was read settles and is acked, the closing tags cross, the channel closes")
    func orderlyShutdown() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2")
        bench.handler.shutDown()
        #expect(!bench.isReading)
        #expect(try bench.writes() == [])
        // What still arrives is not taken: the peer sends it again to the next connection.
        try bench.read(Server.message("3"))
        #expect(bench.inFlight == 2)
        bench.handler.settled([messages[0]])
        #expect(try bench.written().contains(#""message_id":"1""#))
        #expect(bench.end == nil)
        bench.handler.settled([messages[1]])
        let last = try bench.written()
        #expect(last.contains(#""message_id":"2""#))
        #expect(last.hasSuffix(Server.closingTag))
        // The peer's closing tag is to be read.
        #expect(bench.isReading)
        #expect(bench.channel.isActive)
        bench.handler.shutDown()
        #expect(try bench.writes() == [])
        try bench.read(Server.closingTag)
        #expect(!bench.channel.isActive)
        #expect(bench.end?.reason == .streamClosed)
        #expect(bench.acksSent == 2)
    }

    @Test("With nothing under way the goodbye goes out at once; a peer that stays silent is waited for two seconds")
    func silentPeer() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        bench.handler.shutDown()
        #expect(try bench.written() == Server.closingTag)
        bench.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1_999))
        #expect(bench.channel.isActive)
        bench.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        #expect(!bench.channel.isActive)
        #expect(bench.end?.reason == .streamClosed)
        #expect(try bench.writes() == [])
    }

    @Test("A peer that closes first still gets the acks, then our closing tag")
    func peerClosesFirst() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read(Server.message("1"), Server.closingTag)
        let messages = bench.submitted()
        #expect(messages.map(Bench.id) == ["1"])
        #expect(try bench.writes() == [])
        #expect(bench.channel.isActive)
        bench.handler.settled(messages)
        let text = try bench.written()
        #expect(text.contains(#""message_id":"1""#))
        #expect(text.hasSuffix(Server.closingTag))
        #expect(!bench.channel.isActive)
        #expect(bench.acksSent == 1)
        #expect(bench.end?.reason == .streamClosed)
    }

    @Test("A peer that closes first is not kept waiting for longer than two seconds; later acks count as gone")
    func peerClosesFirstAndNothingSettles() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read(Server.message("1"), Server.closingTag)
        let messages = bench.submitted()
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(2))
        #expect(try bench.written() == Server.closingTag)
        #expect(!bench.channel.isActive)
        bench.handler.settled(messages)
        #expect(bench.acksGone == 1)
    }

    @Test("A stream error is answered with the closing tag and reported with its condition")
    func streamError() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read(
            Server.message("1"),
            "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>",
            Server.closingTag
        )
        #expect(try bench.written() == Server.closingTag)
        #expect(!bench.channel.isActive)
        #expect(bench.end?.reason == .streamError)
        guard case .session(_, .conflict)? = bench.end?.ending else {
            Issue.record("\(String(describing: bench.end?.ending))")
            return
        }
        // What came before it is kept all the same.
        #expect(bench.submitted().map(Bench.id) == ["1"])
    }

    @Test(
        "Bad XML gets a stream error for an answer and counts as a failure, which does not grow where stanzas came before",
        arguments: ["<!-- x -->", "<!DOCTYPE a>", "<?pi x?>", "<message></presence>", "&undefined;"]
    )
    func violation(_ bad: String) throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read(Server.message("1"), bad, Server.message("2"))
        let farewell = try bench.written()
        #expect(farewell.hasPrefix("<stream:error><"))
        #expect(farewell.hasSuffix("</stream:error>" + Server.closingTag))
        #expect(!bench.channel.isActive)
        #expect(bench.end?.reason == .policyViolation)
        #expect(bench.end?.ending == .violated(afterStanzas: true))
        #expect(bench.submitted().map(Bench.id) == ["1"])

        let first = try Bench.bound()
        defer { first.finish() }
        try first.read(bad, Server.message("2"))
        #expect(first.end?.ending == .violated(afterStanzas: false))
    }

    /// Well-formed, and more than the reader takes; in the order of ``SkippedStanza/Reason``.
    nonisolated static let tooMuch = [
        String(repeating: "<a>", count: 64) + String(repeating: "</a>", count: 64),
        String(repeating: "<a/>", count: 4096),
        "<a " + (0...64).map { "a\($0)='' " }.joined() + "/>",
        "<a " + (0...16).map { "xmlns:n\($0)='u' " }.joined() + "/>",
        "<" + String(repeating: "n", count: 60_000) + "/>",
        "<forwarded:by-a-server-without-its-declaration/>",
    ]

    @Test("A stanza that is too deep or too wide is counted as other, and the stream goes on", arguments: tooMuch)
    func tooWide(_ content: String) throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let payload = Server.message("2").replacing("</message>", with: content + "</message>")
        try bench.read(Server.message("1"), payload, "<message from='eve@x'>\(content)</message>", Server.message("3"))
        #expect(bench.submitted().map(Bench.id) == ["1", "3"])
        #expect(bench.metrics.stanzas[.other].value == 2)
        #expect(bench.end == nil && bench.channel.isActive)
        #expect(try bench.written() == "")
    }

    @Test("A stream that ends after a stanza that was skipped has brought one: the next is not put off further")
    func violationAfterSkipping() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        try bench.read("<message from='eve@x'>\(EndingTests.tooMuch[0])</message>", "<message><a></b></message>")
        #expect(bench.end?.ending == .violated(afterStanzas: true))
    }

    @Test("A stanza longer than the limit ends the stream the same way")
    func tooLarge() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        let size = bench.handler.settings.limits.stanzaBytes
        try bench.read(Server.message("1", data: "\"" + String(repeating: "x", count: size) + "\""))
        #expect(try bench.written().contains("policy-violation"))
        #expect(bench.end?.reason == .policyViolation)
    }

    @Test("A silent peer is pinged, and the connection ends when it does not answer")
    func pingTimeout() throws {
        var settings = try Bench.settings()
        // The least there is; the session looks at the real clock.
        settings.stream.keepaliveInterval = .milliseconds(1)
        settings.stream.keepaliveTimeout = .milliseconds(1)
        let bench = try Bench.bound(settings)
        defer { bench.finish() }
        var sent = ""
        let deadline = ContinuousClock.now + .seconds(20)
        while bench.end == nil {
            guard ContinuousClock.now < deadline else { throw Deadline() }
            bench.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
            sent += try bench.written()
        }
        #expect(sent.occurrences(of: "urn:xmpp:ping") == 1)
        #expect(bench.end?.reason == .pingTimeout)
        #expect(!bench.channel.isActive)
    }

    @Test("A peer that sends all the time and answers no ping loses its connection: our direction may be dead")
    func talkativePeer() throws {
        for noise in [" ", "<presence/>", Server.message("1"), "<iq type='result' id='x'/>"] {
            var settings = try Bench.settings(window: 10_000)
            settings.stream.keepaliveInterval = .milliseconds(1)
            settings.stream.keepaliveTimeout = .milliseconds(1)
            let bench = try Bench.bound(settings)
            defer { bench.finish() }
            let deadline = ContinuousClock.now + .seconds(20)
            while bench.end == nil {
                guard ContinuousClock.now < deadline else { throw Deadline() }
                try bench.read(noise)
                bench.handler.settled(bench.submitted())
                bench.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
            }
            #expect(bench.end?.reason == .pingTimeout, "\(noise)")
        }
    }

    @Test("A peer that answers its pings stays, however long")
    func answeringPeer() throws {
        var settings = try Bench.settings()
        settings.stream.keepaliveInterval = .milliseconds(1)
        settings.stream.keepaliveTimeout = .seconds(60)
        let bench = try Bench.bound(settings)
        defer { bench.finish() }
        var answered = 0
        let deadline = ContinuousClock.now + .seconds(20)
        while answered < 20 {
            guard ContinuousClock.now < deadline else { throw Deadline() }
            bench.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
            let sent = try bench.written()
            guard let start = sent.firstRange(of: "id=\"")?.upperBound else { continue }
            let id = sent[start...].prefix { $0 != "\"" }
            try bench.read("<iq type='result' id='\(id)' from='fcm.example.org'/>")
            answered += 1
        }
        #expect(bench.end == nil && bench.channel.isActive)
    }

    @Test("Acks that the peer's side does not take end the stream, though it goes on sending")
    func unsentAcks() throws {
        var settings = try Bench.settings()
        settings.stream.keepaliveInterval = .seconds(3_600)
        settings.stream.keepaliveTimeout = .milliseconds(5)
        let bench = try Bench.bound(settings)
        defer { bench.finish() }
        let cork = Cork()
        try bench.channel.pipeline.syncOperations.addHandler(cork, position: .first)
        bench.handler.settled(try bench.deliver("1"))
        #expect(cork.held == 1)
        let deadline = ContinuousClock.now + .seconds(20)
        while bench.end == nil {
            guard ContinuousClock.now < deadline else { throw Deadline() }
            try bench.read(" ")
            bench.channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
        }
        #expect(bench.end?.reason == .pingTimeout)
        #expect(bench.end?.message.contains("takes nothing") == true)
        #expect(!bench.channel.isActive)
        #expect(bench.acksSent == 0 && bench.acksGone == 1)
    }

    @Test("The transport's end without a word is a lost connection, reported once")
    func transportLost() throws {
        let bench = try Bench.bound()
        defer { bench.finish() }
        bench.channel.close(promise: nil)
        #expect(bench.end?.reason == .connectionLost)
        guard case .ended(let end)? = bench.turn else {
            Issue.record("the slot was not told")
            return
        }
        #expect(end.reason == .connectionLost)
    }

    @Test("After its end the handler holds neither the connection nor a timer that holds itself")
    func nothingIsHeld() throws {
        weak var sink: IdleSink?
        weak var handler: StreamHandler<MessageReceiver>?
        do {
            let held = IdleSink()
            sink = held
            let bench = try Bench(sink: held)
            handler = bench.handler
            try bench.connect()
            try bench.establishTLS()
            try bench.signIn()
            bench.finish()
        }
        #expect(sink == nil)
        #expect(handler == nil)
    }
}

/// Takes writes and never ends them, as a socket whose buffers are full.
private final class Cork: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    private var promises: [EventLoopPromise<Void>] = []
    var held: Int { promises.count }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if let promise { promises.append(promise) }
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        for held in promises { held.fail(ChannelError.ioOnClosedChannel) }
        promises = []
        context.close(mode: mode, promise: promise)
    }
}
