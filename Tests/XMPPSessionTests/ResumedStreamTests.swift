import NIOEmbedded
import Telemetry
import Testing
import XMPP

@testable import XMPPSession

@MainActor @Suite("A lost connection: the stream goes on over the next one")
struct ResumedStreamTests {
    private static let features =
        "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"
    private static let enabled = "<enabled xmlns='urn:xmpp:sm:3' id='s1' resume='true' max='60'/>"

    private static func settings(resume: Duration = .seconds(60)) throws -> SenderSettings {
        var settings = try Bench.settings(dialect: .xmpp)
        settings.stream.trustedFrom = ["42@fcm.example.org"]
        settings.stream.resume = resume
        return settings
    }

    /// A bench whose stream can be resumed, with nothing left to read.
    private static func first() throws -> Bench {
        let bench = try Bench(settings())
        try bench.requestBinding(features)
        try bench.read(Server.bindResult)
        #expect(try bench.written().hasPrefix("<enable xmlns=\"urn:xmpp:sm:3\" resume=\"true\" max=\"60\"/>"))
        try bench.read(enabled)
        return bench
    }

    /// Loses the connection; gives what goes on.
    private static func lose(_ bench: Bench) throws -> SuspendedStream? {
        bench.finish()
        return bench.handler.takeSuspended()
    }

    /// A bench that asks for the session of another one, and what it asked.
    private static func next(_ suspended: SuspendedStream?, storeIsFetched: Bool = false) throws -> (Bench, String) {
        var settings = try settings()
        settings.stream.storeIsFetched = storeIsFetched
        let bench = try Bench(settings, suspended: suspended)
        try bench.connect()
        try bench.establishTLS()
        try bench.read(Server.header, Server.mechanisms)
        try bench.read(Server.success)
        _ = try bench.writes()
        try bench.read(Server.header, features)
        return (bench, try bench.written())
    }

    private static func resumed(_ h: Int) -> String { "<resumed xmlns='urn:xmpp:sm:3' previd='s1' h='\(h)'/>" }

    private static func ids(_ text: String) -> [String] {
        text.matches(of: /"message_id":"([^"]*)"/).map { String($0.output.1) }
    }

    @Test(
        "what the server has not got is acked on the resumed stream, what it has is not acked again",
        arguments: [(1, ["1", "2", "3", "4"]), (2, ["2", "3", "4"]), (3, ["3", "4"]), (4, ["4"])]
    )
    func acksOnTheResumedStream(_ confirmed: Int, _ expected: [String]) throws {
        let bench = try ResumedStreamTests.first()
        let messages = try bench.deliver("1", "2", "3", "4", as: ManagementTests.message)
        bench.handler.settled(Array(messages[0...2]))
        #expect(ResumedStreamTests.ids(try bench.written()) == ["1", "2", "3"])
        bench.finish()
        // In flight: not yet.
        #expect(bench.handler.bound?.session.isSuspended == true && bench.handler.bound?.session.suspended == nil)
        bench.handler.settled([messages[3]])
        #expect(bench.acksSent == 3 && bench.acksGone == 0)
        let (second, request) = try ResumedStreamTests.next(bench.handler.takeSuspended())
        defer { second.finish() }
        #expect(request == "<resume xmlns=\"urn:xmpp:sm:3\" previd=\"s1\" h=\"4\"/>")
        // Presence was the first of ours. The server goes on at once.
        try second.read(ResumedStreamTests.resumed(confirmed), ManagementTests.message("5"))
        let sent = try second.written()
        #expect(ResumedStreamTests.ids(sent) == expected)
        #expect(!sent.contains("<presence") && !sent.contains("<enable"))
        #expect(second.acksSent == 1 && second.acksGone == 0 && second.gauges == [0, 1, 0])
        // Counts go on.
        second.handler.settled(second.submitted())
        #expect(try second.written().hasSuffix(ManagementTests.ack(5)))
    }

    @Test("lost again before the acks got through: they go out on the third connection")
    func lostTwice() throws {
        let bench = try ResumedStreamTests.first()
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        bench.handler.settled(messages)
        let (second, _) = try ResumedStreamTests.next(ResumedStreamTests.lose(bench))
        try second.read(ResumedStreamTests.resumed(1))
        #expect(ResumedStreamTests.ids(try second.written()) == ["1", "2"])
        let (third, request) = try ResumedStreamTests.next(ResumedStreamTests.lose(second))
        defer { third.finish() }
        #expect(request.contains("h=\"2\""))
        try third.read(ResumedStreamTests.resumed(2))
        #expect(ResumedStreamTests.ids(try third.written()) == ["2"])
        #expect([bench, second, third].map(\.acksSent) == [2, 0, 0])
    }

    @Test("a connection that fails before it could ask hands the stream on")
    func handedOn() throws {
        let bench = try ResumedStreamTests.first()
        let suspended = try #require(try ResumedStreamTests.lose(bench))
        let failed = try Bench(ResumedStreamTests.settings(), suspended: suspended)
        try failed.connect()
        failed.finish()
        #expect(failed.handler.takeSuspended() != nil)
    }

    @Test("a session that the server has given up: a new one is bound, what was not sent is not acked")
    func givenUp() throws {
        let bench = try ResumedStreamTests.first()
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        bench.finish()
        bench.handler.settled(messages)
        let (second, _) = try ResumedStreamTests.next(bench.handler.takeSuspended())
        defer { second.finish() }
        try second.read(
            "<failed xmlns='urn:xmpp:sm:3'><item-not-found xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></failed>"
        )
        #expect(try second.written().contains("<bind "))
        try second.read(Server.bindResult)
        #expect(try second.written().hasSuffix("<presence/>"))
        #expect(second.acksGone == 2 && second.acksSent == 0)
        // Redelivered, and acked then.
        try second.read(ResumedStreamTests.enabled)
        second.handler.settled(try second.deliver("1", "2", as: ManagementTests.message))
        #expect(ResumedStreamTests.ids(try second.written()) == ["1", "2"])
    }

    @Test(
        "where the offline store is fetched before each login, that ends the connection, and the session is not asked for again"
    )
    func givenUpWithStore() throws {
        let bench = try ResumedStreamTests.first()
        let messages = try bench.deliver("1", "2", as: ManagementTests.message)
        bench.finish()
        bench.handler.settled(messages)
        let (second, _) = try ResumedStreamTests.next(bench.handler.takeSuspended(), storeIsFetched: true)
        try second.read("<failed xmlns='urn:xmpp:sm:3'/>")
        #expect(try second.written() == "" && !second.channel.isActive)
        #expect(second.end?.reason == .streamClosed && second.end?.ending == .unresumed)
        second.finish()
        #expect(second.handler.takeSuspended() == nil)
        #expect(second.acksGone == 2 && second.acksSent == 0)
    }

    @Test("an answer about another session ends it, and it is not asked for again")
    func otherSession() throws {
        let bench = try ResumedStreamTests.first()
        bench.handler.settled(try bench.deliver("1", as: ManagementTests.message))
        let (second, _) = try ResumedStreamTests.next(ResumedStreamTests.lose(bench))
        try second.read("<resumed xmlns='urn:xmpp:sm:3' previd='s2' h='1'/>", ManagementTests.message("9"))
        #expect(second.end?.negotiation?.code == .badStream && second.submitted().isEmpty)
        second.finish()
        #expect(second.handler.takeSuspended() == nil)
    }

    @Test("a stream that ended in order, or with an error, is not resumed, nor is one that was not asked for")
    func notResumed() throws {
        for end in [
            Server.closingTag, "<stream:error><conflict xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error>",
        ] {
            let bench = try ResumedStreamTests.first()
            try bench.read(end)
            #expect(try ResumedStreamTests.lose(bench) == nil)
        }
        let ours = try ResumedStreamTests.first()
        ours.handler.shutDown()
        #expect(try ResumedStreamTests.lose(ours) == nil)
        let plain = try ManagementTests.managed()
        plain.handler.settled(try plain.deliver("1", as: ManagementTests.message))
        #expect(plain.handler.delegate.unconfirmed.pieces.isEmpty)
        #expect(try ResumedStreamTests.lose(plain) == nil)
    }

    @Test("acks are kept up to a bound; beyond it the stream is not resumed")
    func bounded() throws {
        let bench = try ResumedStreamTests.first()
        let long = String(repeating: "i", count: 4_000)
        for _ in 0..<600 {
            bench.handler.settled(try bench.deliver(long, as: ManagementTests.message))
            _ = try bench.writes()
        }
        #expect(bench.handler.delegate.unconfirmed.pieces.isEmpty)
        #expect(try ResumedStreamTests.lose(bench) == nil)
        #expect(bench.acksSent == 600 && bench.acksGone == 0)
    }

    @Test("a server that says what it has frees what is kept")
    func confirmed() throws {
        let bench = try ResumedStreamTests.first()
        defer { bench.finish() }
        bench.handler.settled(try bench.deliver("1", "2", "3", as: ManagementTests.message))
        try bench.read("<a xmlns='urn:xmpp:sm:3' h='4'/>")
        bench.handler.settled(try bench.deliver("4", as: ManagementTests.message))
        #expect(bench.handler.delegate.unconfirmed.pieces.map(\.count) == [1])
    }

    @Test("the host that a stream error names is reported", arguments: ["b.example.org:5222", "[2001:db8::1]"])
    func otherHost(_ host: String) throws {
        let bench = try ManagementTests.managed()
        try bench.read(
            "<stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>\(host)</see-other-host></stream:error>"
        )
        #expect(bench.end?.otherHost == host)
        let early = try Bench(ResumedStreamTests.settings())
        try early.connect()
        try early.establishTLS()
        try early.read(
            Server.header,
            "<stream:error><see-other-host xmlns='urn:ietf:params:xml:ns:xmpp-streams'>\(host)</see-other-host></stream:error>"
        )
        #expect(early.end?.otherHost == host)
    }
}
