import Testing

@testable import XMPP

@Suite("The walk through an offline store: what is read of it, and when it ends")
struct OfflineWalkTests {
    /// A server with these messages, of which some can't be read, and some come after each removal.
    private struct Store {
        var nodes: [String]
        var unreadable: Set<String> = []
        var inflow = 0
        /// How many come in all.
        var most = Int.max
        /// Whether a page brings nothing.
        var isDeaf = false
        private(set) var arrived = 0

        init(_ count: Int) { nodes = (0..<count).map { "n\($0)" } }

        mutating func answer(_ request: OfflineRequest) -> OfflineAnswer {
            switch request {
            case .count: return .count(nodes.count)
            case .list: return .list(nodes)
            case .view(let wanted):
                let found = isDeaf ? [] : wanted.filter(nodes.contains)
                return found.isEmpty ? .refused(.itemNotFound) : .viewed(found.filter { !unreadable.contains($0) })
            case .remove(let wanted):
                nodes.removeAll(where: wanted.contains)
                let next = min(most, arrived + inflow)
                nodes += (arrived..<next).map { "later \($0)" }
                arrived = next
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

    @Test("a store longer than the queue is read on as long as pages come, however fast it fills")
    func outrun() {
        var store = Store(2_000)
        (store.inflow, store.most) = (100, 3_000)
        _ = Self.walk(&store, removed: 5_000)
        store = Store(2_000)
        store.inflow = 25
        _ = Self.walk(&store, queue: 3_000, removed: 960)
        #expect(store.nodes.count == 1_465)
        #expect([0, 1, 1_000, 2_000, 12_000].map(OfflineRequest.size) == [100, 100, 100, 50, 10])
        // What another worker takes from us, or a server does not give, is not asked for without end.
        var away = Store(2_000)
        away.isDeaf = true
        _ = Self.walk(&away, to: .stuck, removed: 0)
    }

    @Test("a store to which a server adds once, while it is read, is read on")
    func addition() {
        var store = Store(3_000)
        var (walk, step, counts) = (OfflineWalk(queue: 5_000), OfflineWalk.Step.ask, 0)
        while step == .ask, counts < 1_000 {
            if walk.request == .count { counts += 1 }
            // What it had received and not yet stored.
            if counts == 2, walk.request == .count { store.nodes += (0..<1_000).map { "late\($0)" } }
            step = walk.answered(store.answer(walk.request))
        }
        #expect(step == .done && store.nodes.count <= 2_500)
    }

    @Test("what is no longer stored is forgotten: a store may be read for hours")
    func forgets() {
        var walk = OfflineWalk(queue: 500)
        let answers: [OfflineAnswer] = [
            .count(2), .list(["1", "2"]), .viewed(["1"]), .removed, .count(2), .list(["2", "3"]),
        ]
        for answer in answers { #expect(walk.answered(answer) == .ask) }
        #expect(walk.tried == ["2"] && walk.request == .view(["3"]))
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
