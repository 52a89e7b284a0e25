import NIOCore
import NIOEmbedded
import Telemetry
import Testing
import Vocabulary
import XMLWire
import XMPP

@testable import Ingest
@testable import XMPPSession

@MainActor @Suite("The offline store is fetched before each login")
struct OfflineRetrievalTests {
    private static let enable = "<enable xmlns=\"urn:xmpp:sm:3\" resume=\"false\"/>"

    private static func count(_ number: Int) -> String {
        "<query xmlns='http://jabber.org/protocol/disco#info' node='http://jabber.org/protocol/offline'>"
            + "<feature var='http://jabber.org/protocol/offline'/><x type='result' xmlns='jabber:x:data'>"
            + "<field var='number_of_messages'><value>\(number)</value></field></x></query>"
    }

    private static func list(_ nodes: String...) -> String {
        let items = nodes.map { "<item node='\($0)'/>" }.joined()
        return "<query xmlns='http://jabber.org/protocol/disco#items'>\(items)</query>"
    }

    /// A message of the store; its id is its node.
    private static func stored(_ node: String) -> String {
        let tag = "<offline xmlns='http://jabber.org/protocol/offline'><item node='\(node)'/></offline>"
        return ManagementTests.message(node).replacing("</message>", with: tag + "</message>")
    }

    // MARK: One stream

    /// A bench whose stream fetches, bound, with this question asked.
    private static func fetching(
        _ request: OfflineRequest,
        _ change: (inout SenderSettings) -> Void = { _ in }
    ) throws -> Bench {
        var settings = try Bench.settings(dialect: .xmpp)
        settings.stream.trustedFrom = ["42@fcm.example.org"]
        change(&settings)
        let bench = try Bench(OfflineRetrieval.settings(SharedSettings(settings)).value)
        try bench.requestBinding(SlotBench.features)
        let promise = bench.channel.embeddedEventLoop.makePromise(of: OfflineAnswer?.self)
        bench.handler.ask(for: AwaitedPage(request, promise))
        try bench.read(Server.bindResult, "<enabled xmlns='urn:xmpp:sm:3'/>")
        let greeting = try bench.written()
        #expect(greeting.hasPrefix(enable) && !greeting.contains("presence"))
        return bench
    }

    @Test("its copies are counted, acked on their own stream, and answered for before that ends (G2, G8)")
    func acks() throws {
        let bench = try Self.fetching(.view(["a", "b"]))
        defer { bench.finish() }
        #expect(bench.gauges == [0, 1, 0])
        try bench.read(Self.stored("a"), ManagementTests.message("live"), Self.stored("b"))
        let messages = bench.submitted()
        #expect(messages.map(Bench.id) == ["a", "live", "b"])
        #expect(bench.inFlight == 3 && bench.metrics.messages.snapshot().received(.upstream) == 3)
        #expect(try bench.written() == "")
        // All are committed before the end.
        bench.handler.shutDown()
        bench.handler.settled([messages[0], messages[2]])
        let early = try bench.written()
        #expect(early.occurrences(of: #""message_type":"ack""#) == 2 && !early.contains(Server.closingTag))
        bench.handler.settled([messages[1]])
        let rest = try bench.written()
        #expect(rest.occurrences(of: #""message_type":"ack""#) == 1)
        #expect(rest.hasSuffix("</message>" + ManagementTests.ack(3) + Server.closingTag))
        #expect(bench.acksSent == 3 && bench.acksGone == 0)
    }

    @Test("one that is lost acks nothing any more, on no stream, and can't be resumed (G2)")
    func lost() throws {
        let bench = try Self.fetching(.view(["a", "b"]))
        try bench.read(Self.stored("a"), Self.stored("b"))
        let messages = bench.submitted()
        bench.handler.settled([messages[0]])
        #expect(try bench.written().occurrences(of: #""message_type":"ack""#) == 1)
        bench.finish()
        bench.handler.settled([messages[1]])
        #expect(try bench.written() == "")
        #expect(bench.handler.takeSuspended() == nil)
        #expect(bench.acksSent == 1 && bench.acksGone == 1 && bench.inFlight == 2)
    }

    @Test("a stranger's IQ that can't be read does not end the fetch; a list that can't be read does")
    func strangers() throws {
        let bench = try Self.fetching(.list)
        defer { bench.finish() }
        let deep = EndingTests.tooMuch[0]
        try bench.read("<iq type='get' id='x' from='eve@x/y'>\(deep)</iq>", "<iq type='get'>\(deep)</iq>")
        #expect(bench.handler.delegate.page?.isAsked == true && bench.end == nil)
        let id = "\(bench.handler.idPrefix)-offline-1"
        try bench.read("<iq type='result' id='\(id)'>\(deep)</iq>")
        #expect(bench.handler.delegate.page == nil && bench.end == nil)
    }

    @Test("a message over limits.stanza stays stored; the list may be longer, and the note of its node is free")
    func limits() throws {
        let bench = try Self.fetching(.view(["a", "b"])) { $0.limits.stanzaBytes = 10_000 }
        defer { bench.finish() }
        let empty = Self.stored("a").utf8.count
        let tag = empty - ManagementTests.message("a").utf8.count
        let padding = { (count: Int) in "<x>" + String(repeating: "x", count: count - 7) + "</x></message>" }
        let fits = Self.stored("a").replacing("</message>", with: padding(10_000 - empty + tag))
        #expect(fits.utf8.count == 10_000 + tag)
        let long = Self.stored("b").replacing("</message>", with: padding(20_000))
        try bench.read(fits, long)
        #expect(bench.submitted().map(Bench.id) == ["a"] && bench.metrics.stanzas[.other].value == 1)
        #expect(bench.handler.settings.limits.stanzaBytes == OfflineRequest.stanzaLimit)
        #expect(bench.end == nil)
    }

    @Test("a list, or a message, over every limit is skipped, and does not cost the connection")
    func longest() throws {
        let bench = try Self.fetching(.list)
        defer { bench.finish() }
        let text = String(repeating: "x", count: OfflineRequest.stanzaLimit)
        try bench.read("<message><body>\(text)</body></message>")
        #expect(bench.handler.delegate.page?.isAsked == true && bench.end == nil)
        try bench.read("<iq type='result' id='\(bench.handler.idPrefix)-offline-1'><x>\(text)</x></iq>")
        #expect(bench.handler.delegate.page == nil && bench.end == nil)
        #expect(bench.metrics.stanzas[.other].value == 2)
    }

    // MARK: A slot

    @Test(
        "before the login: by the page, each removed once it is committed; the operator is told when it begins and ends"
    )
    func order() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        let first = try bench.accept()
        let question = try first.bind()
        #expect(question.hasPrefix(Self.enable) && !question.contains("presence"))
        // It receives.
        #expect(bench.gauge(.bound) == 1 && bench.counts(.offlineReading) == [])
        let list = try first.answer(question, Self.count(2))
        #expect(bench.counts(.offlineReading) == [2] && bench.counts(.offlineRead) == [])
        let view = try first.answer(list, Self.list("a", "b"))
        try first.say(Self.stored("a"), Self.stored("b"), ManagementTests.message("live"))
        #expect(try first.answer(view) == "")
        let batch = try bench.batch()
        #expect(batch.messages.map(Bench.id) == ["a", "b", "live"])
        batch.settle(0..<2)
        #expect(try first.heard().contains("remove") == false)
        batch.settle(2..<3)
        let remove = try first.heard()
        #expect(remove.occurrences(of: "action=\"remove\"") == 2)
        let again = try first.answer(remove)
        // Three messages and five answers.
        let end = try first.answer(again, Self.count(0))
        #expect(end == ManagementTests.ack(8) + Server.closingTag)
        try first.close()
        #expect(bench.counts(.offlineRead) == [2])
        let second = try bench.accept()
        #expect(try second.bind().hasSuffix("<presence/>"))
        #expect(bench.gauge(.bound) == 1)
    }

    @Test("an empty store is nothing to tell of, and a server without flexible retrieval is asked once")
    func nothing() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        let empty = try bench.accept()
        #expect(try empty.answer(try empty.bind(), Self.count(0)).hasSuffix(Server.closingTag))
        try empty.close()
        try bench.accept().lose()
        #expect(bench.counts(.offlineReading) == [] && bench.counts(.offlineRead) == [])

        let without = try SlotBench()
        defer { without.finish() }
        let asked = try without.accept()
        _ = try asked.answer(try asked.bind())
        try asked.close()
        for _ in 1...3 {
            let live = try without.accept()
            #expect(try live.bind().hasSuffix("<presence/>"))
            live.lose()
        }
    }

    /// Loses so many connections in a row that fetch.
    private static func lose(_ count: Int, _ bench: SlotBench) throws {
        for _ in 0..<count {
            let peer = try bench.accept()
            let question = try peer.bind()
            #expect(!question.contains("presence"))
            _ = try peer.answer(question, Self.count(1))
            peer.lose()
        }
    }

    private static func expectLogin(_ bench: SlotBench) throws {
        let live = try bench.accept()
        #expect(try live.bind().hasSuffix("<presence/>"))
        live.lose()
    }

    @Test(
        "a fetch that is lost is tried three times before a login without one; after that, or one that was done, again"
    )
    func lostThrice() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        for _ in 1...2 {
            try Self.lose(3, bench)
            try Self.expectLogin(bench)
        }
        try Self.lose(2, bench)
        let done = try bench.accept()
        _ = try done.answer(try done.bind(), Self.count(0))
        try done.close()
        try Self.expectLogin(bench)
        try Self.lose(3, bench)
        try Self.expectLogin(bench)
    }

    @Test("a server that answers nothing is asked again after a login only; one that binds nothing, each time")
    func silent() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        for _ in 1...3 { try bench.accept().lose() }
        for _ in 1...2 {
            let peer = try bench.accept()
            #expect(try peer.bind().contains("disco#info"))
            peer.lose()
            try Self.expectLogin(bench)
        }
    }

    @Test("while copies of a lost fetch are uncommitted nothing opens; their acks are gone, and they come again (G2)")
    func waits() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        let first = try bench.accept()
        let list = try first.answer(try first.bind(), Self.count(2))
        let view = try first.answer(list, Self.list("a", "b"))
        #expect(view.occurrences(of: "action=\"view\"") == 2)
        try first.say(Self.stored("a"), Self.stored("b"))
        first.lose()
        bench.loop.advanceTime(by: .seconds(60))
        #expect(bench.opened == 1)
        let batch = try bench.batch()
        #expect(batch.messages.map(Bench.id) == ["a", "b"])
        batch.settle(0..<batch.messages.count)
        let next = try bench.accept()
        #expect(bench.metrics.acks[.connectionGone].value == 2)
        #expect(try next.bind().contains("disco#info"))
        #expect(bench.counts(.offlineReading) == [2] && bench.counts(.offlineRead) == [0])
    }

    @Test(
        "a shutdown in the middle of a page waits for the rest of it, which the server would return; nothing is removed"
    )
    func shutDownInAPage() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        let first = try bench.accept()
        let list = try first.answer(try first.bind(), Self.count(2))
        let view = try first.answer(list, Self.list("a", "b"))
        try first.say(Self.stored("a"))
        bench.shutDown()
        #expect(try first.heard() == "")
        try first.say(Self.stored("b"))
        #expect(try first.answer(view) == "")
        let batch = try bench.batch()
        #expect(batch.messages.map(Bench.id) == ["a", "b"])
        batch.settle(0..<batch.messages.count)
        let end = try first.heard()
        #expect(end.occurrences(of: #""message_type":"ack""#) == 2 && !end.contains("remove"))
        #expect(end.hasSuffix(ManagementTests.ack(5) + Server.closingTag))
        try first.close()
        #expect(bench.opened == 1)
        // Between pages it is closed at once.
        let other = try SlotBench()
        defer { other.finish() }
        let peer = try other.accept()
        _ = try peer.answer(try peer.bind(), Self.count(2))
        other.shutDown()
        #expect(try peer.heard().hasSuffix(Server.closingTag))
    }

    @Test("a shutdown in the middle of a page of which nothing more comes waits for 5 s (G7)")
    func shutDownInASilentPage() throws {
        let bench = try SlotBench()
        defer { bench.finish() }
        let peer = try bench.accept()
        let list = try peer.answer(try peer.bind(), Self.count(2))
        _ = try peer.answer(list, Self.list("a", "b"))
        bench.shutDown()
        bench.loop.advanceTime(by: .seconds(4))
        #expect(try peer.heard() == "")
        bench.loop.advanceTime(by: .seconds(1))
        #expect(try peer.heard().hasSuffix(Server.closingTag))
    }

    @Test("a session that the server has given up: what it stored meanwhile is fetched before the login, once")
    func givenUp() throws {
        let bench = try SlotBench(resume: .seconds(60))
        defer { bench.finish() }
        let first = try bench.accept()
        _ = try first.answer(try first.bind(), Self.count(0))
        try first.close()
        let live = try bench.accept()
        let greeting = try live.bind("<enabled xmlns='urn:xmpp:sm:3' id='s1' resume='true' max='60'/>")
        #expect(greeting.hasSuffix("<presence/>"))
        live.lose()
        let resuming = try bench.accept()
        #expect(try resuming.heard().hasPrefix("<resume "))
        try resuming.say("<failed xmlns='urn:xmpp:sm:3'/>")
        #expect(try resuming.heard() == "" && !resuming.channel.isActive)
        #expect(bench.metrics.reconnects[.streamClosed].value == 1)
        let second = try bench.accept()
        let question = try second.bind()
        #expect(question.hasPrefix(Self.enable) && question.contains("disco#info") && !question.contains("presence"))
        _ = try second.answer(question, Self.count(0))
        try second.close()
        try Self.expectLogin(bench)
    }

    @Test("how often a lost fetch is tried")
    func lostFetches() {
        /// Loses each fetch that may be made before the next login, having removed so many; f is a fetch, - none.
        func logins(_ fetches: inout LostFetches, _ removed: [Int], isOffered: Bool) -> String {
            removed.map { removed in
                let may = fetches.mayFetch()
                if may { fetches.lost(removed: removed, isOffered: isOffered) }
                return may ? "f" : "-"
            }
            .joined()
        }
        var fetches = LostFetches()
        #expect(logins(&fetches, [0, 1, 0, 0, 5, 5], isOffered: true) == "fff-ff")
        fetches.done()
        #expect(logins(&fetches, [0, 0, 0, 0, 1, 1, 1, 1], isOffered: false) == "f-f-fff-")
    }
}
