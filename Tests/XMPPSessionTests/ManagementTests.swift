import IntegrationSupport
import Logging
import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import Vocabulary
import XMPP

@testable import XMPPSession

@MainActor @Suite("A standard server: presence, stream management, addressed acks")
struct ManagementTests {
    private static let features =
        "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"
    private static let request = "<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>"
    private static let enabled = "<enabled xmlns='urn:xmpp:sm:3'/>"
    private static let question = "<r xmlns='urn:xmpp:sm:3'/>"
    private static let sender = "42@fcm.example.org/phone&1"

    static func ack(_ h: Int) -> String { "<a xmlns=\"urn:xmpp:sm:3\" h=\"\(h)\"/>" }

    /// A message as a standard server hands it on: from a full address, quotes escaped.
    static func message(_ id: String) -> String {
        Server.message(id).replacing("<message id=''", with: "<message from='42@fcm.example.org/phone&amp;1'")
            .replacing("\"", with: "&quot;")
    }

    private static func settings() throws -> SenderSettings {
        var settings = try Bench.settings(dialect: .xmpp)
        settings.stream.trustedFrom = ["42@fcm.example.org"]
        return settings
    }

    /// A bench that has sent its bind request to a server with these features.
    private static func binding(
        _ features: String = features,
        _ settings: SenderSettings? = nil,
        logger: Logger = .quiet
    ) throws -> Bench {
        let bench = try Bench(try settings ?? self.settings(), logger: logger)
        try bench.requestBinding(features)
        return bench
    }

    @Test("A message whose ack would be too large is not acked but answered for, and counted once it has committed")
    func ackTooLarge() throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        try bench.read(ManagementTests.message(String(repeating: "'", count: 20_000)), ManagementTests.message("2"))
        let messages = bench.submitted()
        #expect(messages.map { $0.answer == .tooLarge } == [true, false])
        #expect(bench.metrics.acks[.tooLarge].value == 0)
        bench.handler.settled(messages)
        let sent = try bench.written()
        #expect(sent.contains(#""message_id":"2""#) && sent.hasSuffix(ManagementTests.ack(2)))
        #expect(sent.utf8.count < 1_000)
        #expect(bench.metrics.acks[.tooLarge].value == 1 && bench.acksSent == 1)
        let books = bench.metrics.messages.snapshot()
        #expect(books.received(.malformed) == 1 && books.received(.upstream) == 1)
    }

    @Test("The limit that the server announces is the acks' limit")
    func announcedLimit() throws {
        let limits = "<limits xmlns='urn:xmpp:stream-limits:0'><max-bytes>10000</max-bytes></limits></stream:features>"
        let bench = try ManagementTests.binding(
            ManagementTests.features.replacing("</stream:features>", with: limits)
        )
        defer { bench.finish() }
        try bench.read(Server.bindResult, ManagementTests.enabled)
        _ = try bench.written()
        try bench.read(ManagementTests.message(String(repeating: "i", count: 9_000)))
        try bench.read(ManagementTests.message(String(repeating: "i", count: 4_000)))
        // The token of a test's message is as long as its id.
        #expect(bench.submitted().map { $0.answer == .tooLarge } == [true, false])
    }

    static func managed() throws -> Bench {
        let bench = try binding()
        try bench.read(Server.bindResult)
        #expect(try bench.written() == request + "<presence/>")
        try bench.read(enabled)
        #expect(try bench.written() == "")
        return bench
    }

    @Test("Presence goes out with the request for the server's account; what comes before its answer is not counted")
    func presenceWithTheRequest() throws {
        let bench = try ManagementTests.binding()
        defer { bench.finish() }
        try bench.read(Server.bindResult, ManagementTests.message("early"))
        // In one write: nothing is stored between the two that the presence would miss.
        #expect(try bench.writes() == [ManagementTests.request + "<presence/>"])
        let early = bench.submitted()
        try bench.read(ManagementTests.enabled)
        #expect(try bench.written() == "")
        let counted = try bench.deliver("1", as: ManagementTests.message)
        bench.handler.settled(early)
        #expect(try bench.written().contains("urn:xmpp:sm") == false)
        bench.handler.settled(counted)
        #expect(try bench.written().hasSuffix(ManagementTests.ack(1)))
    }

    @Test("Acks go to the stanza's sender, then one <a/> for all of a batch; a question is answered at once")
    func onePerFlush() throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        try bench.read("<presence from='42@fcm.example.org/r'/>", ManagementTests.question)
        #expect(try bench.written() == ManagementTests.ack(1))
        let messages = try bench.deliver("1", "2", "3", as: ManagementTests.message)
        try bench.read(ManagementTests.question)
        #expect(try bench.written() == ManagementTests.ack(1))
        bench.handler.settled([messages[1]])
        // A neighbour that has not committed holds it back: acked to its sender, not answered for.
        let held = try bench.written()
        #expect(held.occurrences(of: #""message_type":"ack""#) == 1 && !held.contains("urn:xmpp:sm"))
        #expect(held.contains(#"to="42@fcm.example.org/phone&amp;1""#))
        bench.handler.settled([messages[0], messages[2]])
        let text = try bench.written()
        #expect(text.occurrences(of: #""message_type":"ack""#) == 2 && text.occurrences(of: "urn:xmpp:sm") == 1)
        #expect(text.hasSuffix("</message>" + ManagementTests.ack(4)))
        // Neither the question nor its answer is a stanza.
        #expect(bench.metrics.stanzas[.other].value == 1)
        #expect(bench.acksSent == 3)
    }

    @Test("The last word before the goodbye answers for everything, once")
    func orderlyShutdown() throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        bench.handler.shutDown()
        try bench.read(ManagementTests.message("3"))
        bench.handler.settled(messages)
        let text = try bench.written()
        #expect(text.hasSuffix("</message>" + ManagementTests.ack(2) + Server.closingTag))
        #expect(text.occurrences(of: "urn:xmpp:sm") == 1)
        try bench.read(Server.closingTag)
        #expect(bench.end?.reason == .streamClosed)
    }

    @Test("A stream that breaks off in the middle answers for what has committed and no more")
    func violation() throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        bench.handler.settled([messages[0]])
        _ = try bench.writes()
        try bench.read("<!-- x -->")
        #expect(try bench.written().hasPrefix(ManagementTests.ack(1) + "<stream:error>"))
    }

    @Test("A skipped stanza is answered for with its neighbours", arguments: EndingTests.tooMuch)
    func skippedStanza(_ content: String) throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        try bench.read("<message from='eve@x'>\(content)</message>", ManagementTests.question)
        #expect(try bench.written() == ManagementTests.ack(1))
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        try bench.read("<presence>\(content)</presence>", "<nonza>\(content)</nonza>", ManagementTests.question)
        // Not past what has not committed.
        #expect(try bench.written() == ManagementTests.ack(1))
        bench.handler.settled(messages)
        #expect(try bench.written().hasSuffix("</message>" + ManagementTests.ack(4)))
        #expect(bench.end == nil && bench.metrics.stanzas[.other].value == 3)
    }

    /// A beginning that ends the stream, and the error's text.
    private nonisolated static let unreadable = [
        ("<message>" + String(repeating: "x", count: 256 * 1024) + "</message>", "larger than limits.stanza"),
        ("<message a='" + String(repeating: "x", count: 256 * 1024), "larger than limits.stanza"),
        ("<message><a></b></message>", "not well-formed"),
        ("<message><!-- x --></message>", "comment"),
        ("<message>\u{1}</message>", "not well-formed"),
        ("<message>" + EndingTests.tooMuch[0] + "<a></b></message>", "not well-formed"),
    ]

    @Test(
        "A stanza that ends the stream is answered for after what came before it, so that it does not come again",
        arguments: unreadable
    )
    func refusedStanza(_ stanza: String, _ reason: String) throws {
        let bench = try ManagementTests.managed()
        defer { bench.finish() }
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        try bench.read(stanza + ManagementTests.message("3"))
        #expect(try bench.written() == "" && bench.end == nil)
        bench.handler.settled([messages[1]])
        #expect(try bench.written().contains("stream:error") == false)
        bench.handler.settled([messages[0]])
        #expect(try bench.written().contains("</message>" + ManagementTests.ack(3) + "<stream:error>"))
        #expect(bench.end?.reason == .policyViolation)
        #expect(bench.end?.message.contains(reason) == true)
        #expect(bench.end?.ending == .violated(afterStanzas: true))
        #expect(bench.submitted().isEmpty)
        #expect(bench.metrics.stanzas[.other].value == 1)

        let quiet = try ManagementTests.managed()
        defer { quiet.finish() }
        try quiet.read(stanza)
        #expect(try quiet.written().hasPrefix(ManagementTests.ack(1) + "<stream:error>"))
    }

    @Test("Byte by byte it is the same conversation")
    func byteByByte() throws {
        let bench = try ManagementTests.binding()
        defer { bench.finish() }
        let conversation =
            Server.bindResult + ManagementTests.enabled + "<presence/>" + ManagementTests.message("1")
            + ManagementTests.question + "<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>"
            + ManagementTests.message("2") + ManagementTests.question
        for byte in conversation.utf8 { try bench.channel.writeInbound(ByteBuffer(bytes: [byte])) }
        let sent = try bench.written()
        let pong = "<iq type=\"result\" id=\"p\"/>"
        let first = ManagementTests.ack(1)
        #expect(sent == ManagementTests.request + "<presence/>" + first + pong + first)
        let messages = bench.submitted()
        #expect(messages.map(Bench.id) == ["1", "2"])
        bench.handler.settled(messages)
        #expect(try bench.written().hasSuffix(ManagementTests.ack(4)))
    }

    @Test("A server without stream management is warned of once, and used all the same")
    func withoutManagement() throws {
        let output = MemoryLogOutput()
        let logger = Logger(label: "test") { LineLogHandler(label: $0, level: .info, format: .json, output: output) }
        let settings = try ManagementTests.settings()
        let refusal =
            "<failed xmlns='urn:xmpp:sm:3'><feature-not-implemented xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
        for (features, answer) in [(Server.bindFeature, ""), (ManagementTests.features, refusal)] {
            let bench = try ManagementTests.binding(features, settings, logger: logger)
            try bench.read(Server.bindResult, answer)
            #expect(try bench.written().hasSuffix("<presence/>"))
            let messages = try bench.deliver("1", as: ManagementTests.message)
            bench.handler.settled(messages)
            #expect(try bench.written().contains("urn:xmpp:sm") == false)
            bench.finish()
        }
        let warnings = output.lines.filter { $0.contains("stream.unmanaged") }
        #expect(warnings.count == 1)
        #expect(warnings.first?.contains("lost") == true && warnings.first?.contains("not offered") == true)
    }

    @Test("A server that offers it and never answers is left: what it sends would not be accounted for")
    func unanswered() throws {
        var settings = try ManagementTests.settings()
        settings.stream.keepaliveInterval = .milliseconds(1)
        let bench = try ManagementTests.binding(ManagementTests.features, settings)
        defer { bench.finish() }
        try bench.read(Server.bindResult)
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(119))
        #expect(bench.end == nil)
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(bench.end?.reason == .policyViolation)
        #expect(bench.end?.message.contains("stream management") == true)
        #expect(!bench.channel.isActive)
    }

    @Test("A probe asks for nothing")
    func probe() throws {
        let bench = try ProbeBench(ManagementTests.settings())
        try bench.requestBinding(ManagementTests.features)
        try bench.read(Server.bindResult)
        #expect(try bench.written() == Server.closingTag)
    }

    @Test("A CCS that offers stream management is not asked for it: not a byte is other than before")
    func aCCSIsNotAsked() throws {
        let bench = try ManagementTests.binding(ManagementTests.features, try Bench.settings())
        defer { bench.finish() }
        try bench.read(Server.bindResult, ManagementTests.question)
        #expect(try bench.writes() == [])
        let messages = try bench.deliver("1")
        bench.handler.settled(messages)
        #expect(try bench.written().hasPrefix("<message id=\"\"><gcm"))
        bench.handler.shutDown()
        #expect(try bench.written() == Server.closingTag)
        #expect(bench.metrics.stanzas[.other].value == 1)
    }
}
