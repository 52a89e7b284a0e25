import NIOCore
import NIOEmbedded
import Testing
import XMPP

@testable import XMPPSession

@MainActor @Suite("The notes of check --thorough and audit --against-archive")
struct TrialStreamTests {
    private static let features =
        "<stream:features><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/><sm xmlns='urn:xmpp:sm:3'/></stream:features>"

    private static func bound(holds: Bool, scope: IDScope = .sender) throws -> StreamBench<TrialDelegate> {
        var settings = try Bench.settings(dialect: .xmpp)
        settings.stream.trustedFrom = ["42@fcm.example.org"]
        settings.stream.idScope = scope
        let delegate = TrialDelegate(of: settings.stream.senderID, holds: holds, suspended: nil)
        let bench = try StreamBench(StreamHandler(settings: SharedSettings(settings), delegate: delegate))
        try bench.requestBinding(features)
        try bench.read(Server.bindResult, "<enabled xmlns='urn:xmpp:sm:3'/>")
        _ = try bench.written()
        return bench
    }

    private static func wait(
        _ bench: StreamBench<TrialDelegate>,
        until isSo: @escaping (TrialNews) -> Bool
    ) -> EventLoopFuture<TrialNews> {
        let loop = bench.channel.embeddedEventLoop
        let promise = loop.makePromise(of: TrialNews.self)
        bench.handler.delegate.wait(.seconds(5), on: loop, until: isSo, promise)
        return promise.futureResult
    }

    @Test("one that holds answers for no message until it is told to commit; then for each as it comes")
    func holds() throws {
        let bench = try Self.bound(holds: true)
        try bench.read(ManagementTests.message("1"), ManagementTests.message("2"), "<r xmlns='urn:xmpp:sm:3'/>")
        #expect(try bench.written() == ManagementTests.ack(0))
        let news = try #require(bench.value(Self.wait(bench) { _ in true }))
        #expect(news.messages.map(\.id) == ["1", "2"] && news.ids == ["1", "2"] && news.isReady)
        #expect(news.messages.allSatisfy { $0.key != nil && $0.data == "{}" })
        bench.handler.delegate.release()
        #expect(try bench.written() == ManagementTests.ack(2))
        try bench.read(ManagementTests.message("3"))
        #expect(try bench.written() == ManagementTests.ack(3))
        #expect(bench.handler.delegate.takeMessages().count == 3 && bench.handler.delegate.takeMessages().isEmpty)
        _ = try? bench.channel.finish()
    }

    @Test("a message has the key that it would have with the other id_scope")
    func otherKeys() throws {
        let messages = try [IDScope.sender, .device].map { scope in
            let bench = try Self.bound(holds: true, scope: scope)
            try bench.read(ManagementTests.message("1"))
            defer { _ = try? bench.channel.finish() }
            return try #require(bench.handler.delegate.takeMessages().first)
        }
        #expect(messages[0].otherKey?.scope == .device && messages[1].otherKey?.scope == .sender)
        #expect(messages[0].key != nil && messages[0].key == messages[1].otherKey?.key)
        #expect(messages[1].key != messages[0].key && messages[1].key == messages[0].otherKey?.key)
    }

    @Test(
        "who waits is told when it is so, when the time is over, and at the end; answers and returned messages are noted"
    )
    func waits() throws {
        let bench = try Self.bound(holds: false)
        let returned = Self.wait(bench) { $0.returned["x"] == .gone }
        let answered = Self.wait(bench) { $0.answers["v"] == "Server 1.2-3" }
        #expect(bench.value(returned) == nil && bench.value(answered) == nil)
        try bench.read(
            "<message type='error' id='x'><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
                + "</message>"
        )
        #expect(bench.value(returned) != nil && bench.value(answered) == nil)
        try bench.read(
            "<iq type='result' id='v'><query xmlns='jabber:iq:version'><name>Server</name><version>1.2-3</version></query>"
                + "</iq>"
        )
        #expect(bench.value(answered) != nil)
        let never = Self.wait(bench) { _ in false }
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(4))
        #expect(bench.value(never) == nil)
        bench.channel.embeddedEventLoop.advanceTime(by: .seconds(1))
        #expect(try #require(bench.value(never)).end == nil)
        let late = Self.wait(bench) { _ in false }
        _ = try? bench.channel.finish()
        #expect(try #require(bench.value(late)).end != nil)
        #expect(bench.value(Self.wait(bench) { _ in false }) != nil)
    }
}
