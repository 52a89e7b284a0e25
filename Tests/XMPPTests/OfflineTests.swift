import Testing
import Vocabulary
import XMLWire

@testable import XMPP

@Suite("The offline store: what is asked, what comes, and what is removed")
struct OfflineTests {
    private static let own = "1234567890@fcm.googleapis.com"

    /// A message of the store, with the node that the server gives it.
    private static func message(
        _ node: String?,
        from: String = "devices@gcm.googleapis.com/x",
        _ more: String = ""
    ) -> String {
        let tag =
            node.map { "<offline xmlns='http://jabber.org/protocol/offline'><item node='\($0)'/></offline>" } ?? ""
        return "<message from='\(from)'>\(more)<gcm xmlns='google:mobile:data'>"
            + "{\"message_id\":\"\(node ?? "live")\",\"from\":\"t\",\"category\":\"c\"}</gcm>\(tag)</message>"
    }

    private static func result(_ id: Int, _ content: String = "", from: String? = own) -> String {
        "<iq type='result' id='r-offline-\(id)'\(from.map { " from='\($0)'" } ?? "")>\(content)</iq>"
    }

    private static func refusal(_ id: Int, _ condition: String) -> String {
        "<iq type='error' id='r-offline-\(id)'><error type='cancel'>"
            + "<\(condition) xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></iq>"
    }

    /// ejabberd's.
    private static func count(_ number: String, feature: String = "http://jabber.org/protocol/offline") -> String {
        "<query xmlns='http://jabber.org/protocol/disco#info' node='http://jabber.org/protocol/offline'>"
            + "<identity category='automation' type='message-list'/><feature var='\(feature)'/>"
            + "<x type='result' xmlns='jabber:x:data'><field var='FORM_TYPE' type='hidden'>"
            + "<value>http://jabber.org/protocol/offline</value></field>"
            + "<field var='number_of_messages' type='text-single'><value>\(number)</value></field></x></query>"
    }

    private static func list(_ nodes: [String]) -> String {
        let items = nodes.map { "<item node='\($0)' name='devices@ccs.test/d' jid='\(own)'/>" }.joined()
        return "<query xmlns='http://jabber.org/protocol/disco#items'>\(items)</query>"
    }

    /// Asks, hears this, and gives the answer, with all that was delivered committed.
    private static func answer(_ request: OfflineRequest, _ heard: [String]) throws -> OfflineAnswer? {
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(request)
        var messages: [IncomingMessage] = []
        for xml in heard {
            if case .deliver(let message, _) = try session.hear(xml) { messages.append(message) }
        }
        if !messages.isEmpty { _ = session.committed(messages) }
        return session.takeOfflineAnswer()
    }

    @Test("the queries go to our own account, in well-formed XML, each with an id of its own")
    func queries() throws {
        var session = try makeSession(dialect: .xmpp)
        let count = text(session.ask(.count) ?? [])
        #expect(count.contains("disco#info\" node=\"http://jabber.org/protocol/offline\"") && !count.contains(" to="))
        let list = text(session.ask(.list) ?? [])
        #expect(list.contains("disco#items\" node=\"http://jabber.org/protocol/offline\""))
        let view = text(session.ask(.view(["1", "a<\""])) ?? [])
        #expect(view.contains("type=\"get\"") && view.contains("<item action=\"view\" node=\"a&lt;&quot;\"/>"))
        let remove = text(session.ask(.remove(["1"])) ?? [])
        #expect(remove.contains("type=\"set\" id=\"r-offline-4\"") && remove.contains("action=\"remove\" node=\"1\""))
        for query in [count, list, view, remove] { _ = try stanza(query) }
        // ejabberd answers no ping while it looks for messages.
        #expect(session.writePatience == 8)
        _ = session.close()
        let late = session.ask(OfflineRequest.count)
        #expect(late == nil)
    }

    @Test("a page ends when the last of its messages is committed, and not before; nothing of it is counted as other")
    func committed() throws {
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(.view(["1", "2", "3"]))
        var messages: [IncomingMessage] = []
        for node in ["1", "2"] {
            guard case .deliver(let message, _) = try session.hear(Self.message(node)) else {
                throw Unexpected("not delivered")
            }
            #expect(!message.isArchived)
            messages.append(message)
        }
        // Nobody's message: it is judged, and as far as we are concerned it may go.
        guard case .note(.untrusted) = try session.hear(Self.message("3", from: "mallory@gcm.googleapis.com")) else {
            throw Unexpected("taken")
        }
        guard case .answer(let bytes) = try session.hear(Self.result(1)) else { throw Unexpected("counted") }
        #expect(bytes.isEmpty && session.takeOfflineAnswer() == nil)
        _ = session.committed([messages[1]])
        #expect(session.takeOfflineAnswer() == nil)
        _ = session.committed([messages[0]])
        #expect(session.takeOfflineAnswer() == .viewed(["1", "2", "3"]))
        #expect(session.takeOfflineAnswer() == nil)
    }

    @Test("only the nodes that were asked for count, each once, by the server's own word")
    func nodes() throws {
        // A live message; one with another's node; the device's word before the server's; the same again.
        let forged = "<offline xmlns='http://jabber.org/protocol/offline'><item node='2'/></offline>"
        let heard = [
            Self.message(nil), Self.message("9"), Self.message("1", from: "devices@gcm.googleapis.com/x", forged),
            Self.message("1"), Self.message("3").replacing("protocol/offline", with: "protocol/other"), Self.result(1),
        ]
        #expect(try Self.answer(.view(["1", "2", "3"]), heard) == .viewed(["1"]))
        // What can't be read does not come.
        #expect(try Self.answer(.view(["1"]), [Self.result(1)]) == .viewed([]))
        #expect(try Self.answer(.remove(["1"]), [Self.message("1"), Self.result(1)]) == .removed)
        #expect(try Self.answer(.view(["1"]), [Self.refusal(1, "item-not-found")]) == .refused(.itemNotFound))
    }

    @Test(
        "only our own account answers, to the query itself",
        arguments: [
            (own, 1, true), (nil, 1, true), ("\(own)/r", 1, false), ("fcm.googleapis.com", 1, false),
            ("mallory@fcm.googleapis.com", 1, false), (own, 2, false),
        ] as [(String?, Int, Bool)]
    )
    func sources(_ from: String?, _ id: Int, _ counts: Bool) throws {
        let answer = try Self.answer(.list, [Self.result(id, Self.list(["1"]), from: from)])
        #expect(answer == (counts ? .list(["1"]) : nil))
    }

    @Test(
        "how many there are: a number beside the feature, or there is no flexible retrieval",
        arguments: [
            (count("905"), .count(905)), (count("0"), .count(0)), (count("-1"), .refused(.featureNotImplemented)),
            (count("x"), .refused(.featureNotImplemented)), (count(""), .refused(.featureNotImplemented)),
            (count("9", feature: "msgoffline"), .refused(.featureNotImplemented)),
            ("", .refused(.featureNotImplemented)),
        ] as [(String, OfflineAnswer)]
    )
    func counts(_ content: String, _ expected: OfflineAnswer) throws {
        #expect(try Self.answer(.count, [Self.result(1, content)]) == expected)
    }

    @Test("a list's odd items are left out; one that is too long to be read is a refusal")
    func lists() throws {
        let long = String(repeating: "n", count: 101)
        let odd = Self.list(["", long, "2"]).replacing(
            "</query>",
            with: "<item jid='x'/><x/><item xmlns='y' node='3'/></query>"
        )
        #expect(try Self.answer(.list, [Self.result(1, odd)]) == .list(["2"]))
        #expect(try Self.answer(.list, [Self.result(1)]) == .list([]))
        var session = try makeSession(dialect: .xmpp)
        _ = session.ask(OfflineRequest.list)
        _ = session.skipped(.message)
        #expect(session.takeOfflineAnswer() == nil)
        _ = session.skipped(.iq)
        #expect(session.takeOfflineAnswer() == .refused(.resourceConstraint))
    }

    @Test("the same stanza is the same JSON, stored offline or not")
    func canonical() throws {
        let live = try stanza("<message><body>x</body></message>")
        let stored = try stanza(
            "<message><body>x</body><offline xmlns='http://jabber.org/protocol/offline'><item node='1'/></offline></message>"
        )
        #expect(StanzaJSON.object(0, of: live) == StanzaJSON.object(0, of: stored))
    }

    // MARK: The walk

    /// A server with these messages, of which some can't be read, and some come after each removal.
    private struct Store {
        var nodes: [String]
        var unreadable: Set<String> = []
        var inflow = 0
        private(set) var arrived = 0

        init(_ count: Int) { nodes = (0..<count).map { "n\($0)" } }

        mutating func answer(_ request: OfflineRequest) -> OfflineAnswer {
            switch request {
            case .count: return .count(nodes.count)
            case .list: return .list(nodes)
            case .view(let wanted):
                let found = wanted.filter(nodes.contains)
                return found.isEmpty ? .refused(.itemNotFound) : .viewed(found.filter { !unreadable.contains($0) })
            case .remove(let wanted):
                nodes.removeAll(where: wanted.contains)
                nodes += (arrived..<arrived + inflow).map { "later \($0)" }
                arrived += inflow
                return .removed
            }
        }
    }

    /// Walks to the end, and expects that; returns the requests by their first letter and size.
    private static func walk(
        _ store: inout Store,
        queue: Int = 500,
        to end: OfflineWalk.Step = .done,
        removed: Int
    ) -> String {
        var walk = OfflineWalk(queue: queue)
        var asked: [String] = []
        var step = OfflineWalk.Step.ask
        while step == .ask, asked.count < 10_000 {
            switch walk.request {
            case .count: asked.append("c")
            case .list: asked.append("l")
            case .view(let nodes): asked.append("v\(nodes.count)")
            case .remove(let nodes): asked.append("r\(nodes.count)")
            }
            step = walk.answered(store.answer(walk.request))
        }
        #expect(step == end && walk.removed == removed)
        return asked.joined(separator: " ")
    }

    @Test("a store is read by the page, each removed before the next is asked for, until it is empty")
    func pages() {
        var empty = Store(0)
        #expect(Self.walk(&empty, removed: 0) == "c")
        var one = Store(100)
        #expect(Self.walk(&one, removed: 100) == "c l v100 r100 c")
        var more = Store(150)
        more.inflow = 10
        // What comes meanwhile is read for a while.
        let asked = Self.walk(&more, removed: 170 + 10 * OfflineWalk.patience)
        let rest = Array(repeating: "l v10 r10 c", count: OfflineWalk.patience).joined(separator: " ")
        #expect(asked == "c l v100 r100 c v50 r50 c l v20 r20 c " + rest)
        #expect(more.nodes.count == 10)
    }

    @Test("of a long store only what the queue can't hold is read, but all of a short one")
    func longStores() {
        var fits = Store(2_500)
        #expect(Self.walk(&fits, queue: 5_000, removed: 0) == "c")
        var over = Store(2_600)
        // The longer the store, the shorter the page.
        #expect(Self.walk(&over, queue: 5_000, removed: 116) == "c l v38 r38 c v39 r39 c v39 r39 c")
        var small = Store(900)
        _ = Self.walk(&small, queue: 500, removed: 900)
        #expect(small.nodes.isEmpty)
    }

    @Test("what can't be read stays, and is asked for once")
    func unreadable() {
        var store = Store(150)
        store.unreadable = ["n7", "n149"]
        _ = Self.walk(&store, removed: 148)
        #expect(store.nodes == ["n7", "n149"])
        var poison = Store(1)
        poison.unreadable = ["n0"]
        #expect(Self.walk(&poison, removed: 0) == "c l v1 c l")
    }

    @Test("a store that fills as fast as it is read ends the walk; one that fills half as fast does not")
    func outrun() {
        var store = Store(2_000)
        store.inflow = 100
        _ = Self.walk(&store, to: .outrun, removed: 446)
        store = Store(2_000)
        store.inflow = 25
        _ = Self.walk(&store, queue: 3_000, removed: 960)
        #expect(store.nodes.count == 1_465)
        #expect([0, 1, 1_000, 2_000, 12_000].map(OfflineRequest.size) == [100, 100, 100, 50, 10])
    }

    @Test("a walk ends beside devices that send on and on, though the store is shorter now and then")
    func fluctuates() {
        var store = Store(50)
        var (walk, step, turns) = (OfflineWalk(queue: 500), OfflineWalk.Step.ask, 0)
        while step == .ask, turns < 1_000 {
            turns += 1
            // After each removal between 20 and 30.
            store.inflow = 20 + turns % 11
            step = walk.answered(store.answer(walk.request))
        }
        #expect(step == .done && turns < 200)
    }

    @Test("refusals: no flexible retrieval, a store that is too long, another worker's removal, and any other")
    func refusals() {
        /// Gives the answers, which must all be asked on but the last.
        func end(_ answers: [OfflineAnswer]) -> OfflineWalk.Step {
            var walk = OfflineWalk(queue: 500)
            for answer in answers.dropLast() { #expect(walk.answered(answer) == .ask) }
            return walk.answered(answers[answers.count - 1])
        }
        #expect(end([.refused(.itemNotFound)]) == .notOffered)
        // A server that is in trouble now may have it.
        #expect(end([.refused(.internalServerError)]) == .refused(.internalServerError))
        #expect(end([.count(OfflineRequest.listLimit + 1)]) == .tooLong)
        #expect(end([.count(9), .refused(.resourceConstraint)]) == .tooLong)
        #expect(end([.count(2), .list(["1", "2"]), .viewed(["1"]), .refused(.itemNotFound), .count(0)]) == .done)
        #expect(end([.count(1), .list(["1"]), .refused(.itemNotFound), .count(0)]) == .done)
        #expect(end([.count(1), .list(["1"]), .viewed([]), .refused(.forbidden)]) == .refused(.forbidden))
        #expect(end([.count(1), .refused(.forbidden)]) == .refused(.forbidden))
        #expect(end([.removed]) == .refused(.undefinedCondition))
    }
}
