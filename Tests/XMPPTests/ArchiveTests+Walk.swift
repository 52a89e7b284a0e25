import Testing
import Vocabulary

@testable import XMPP

// The walk from page to page.
extension ArchiveTests {
    static func page(_ last: String?, _ count: Int = 2, complete: Bool = false) -> ArchiveAnswer {
        .page(count: count, last: ArchivePoint(id: last), isComplete: complete)
    }

    @Test("a walk asks for the page after the last, keeps the last time it knows, and ends with the archive")
    func walk() {
        var walk = ArchiveWalk(.after(Self.point))
        let second = ArchivePoint(id: "a2", time: Self.point.time)
        #expect(walk.answered(Self.page("a2")) == .save(second, end: nil))
        #expect(walk.request == .after(second))
        let third = ArchivePoint(id: "a3", time: Self.point.time)
        #expect(walk.answered(Self.page("a3", 1, complete: true)) == .save(third, end: .complete))
        #expect(walk.results == 3)
    }

    @Test(
        "where nothing follows the last message, the archive's end tells whether it still knows it: if not, its time does",
        arguments: [("a0", false), (nil, false), ("b7", true)] as [(String?, Bool)]
    )
    func unknown(_ last: String?, _ isLost: Bool) {
        for isComplete in [false, true] {
            var walk = ArchiveWalk(.after(Self.point, most: 7))
            #expect(walk.answered(Self.page(nil, 0, complete: isComplete)) == .check)
            #expect(walk.request == .end)
            let step = walk.answered(Self.page(last, 1, complete: true))
            #expect(step == (isLost ? .again : .save(Self.point, end: .complete)))
            guard isLost else { continue }
            let place = ArchivePoint(time: Self.point.time)
            #expect(walk.request == .after(place, most: 7) && walk.results == 0)
            // Nothing there either.
            #expect(walk.answered(Self.page(nil, 0, complete: true)) == .save(place, end: .complete))
        }
        var refused = ArchiveWalk(.after(Self.point))
        _ = refused.answered(Self.page(nil, 0))
        #expect(refused.answered(.refused(.forbidden)) == .fail(.refused(.forbidden)))
    }

    @Test("a full page is read on from, whatever it says of itself")
    func full() {
        var walk = ArchiveWalk(.after(Self.point, most: 3))
        let next = ArchivePoint(id: "a3", time: Self.point.time)
        #expect(walk.answered(Self.page("a3", 3, complete: true)) == .save(next, end: nil))
        #expect(walk.answered(Self.page(nil, 0, complete: true)) == .save(next, end: .complete))
        var same = ArchiveWalk(.after(Self.point, most: 3))
        #expect(same.answered(Self.page("a0", 3, complete: true)) == .fail(.stuck))
        var nameless = ArchiveWalk(.after(Self.point, most: 3))
        #expect(nameless.answered(Self.page(nil, 3, complete: true)) == .save(Self.point, end: .complete))
    }

    @Test("where the last message was purged, a walk goes on from its time, once")
    func purged() {
        var walk = ArchiveWalk(.after(Self.point))
        #expect(walk.answered(.refused(.itemNotFound)) == .again)
        #expect(walk.request == .after(ArchivePoint(time: Self.point.time)))
        #expect(walk.answered(.refused(.itemNotFound)) == .fail(.refused(.itemNotFound)))
    }

    @Test("pages are short, so that live messages don't wait behind one, but not where that makes them no quicker")
    func pace() {
        var walk = ArchiveWalk(.after(Self.point, most: ArchiveRequest.shortSize))
        let (short, long) = (ArchiveRequest.shortSize, ArchiveRequest.size)
        for (turn, (took, most)) in [(1, short), (51, long), (51, long), (50, short)].enumerated() {
            _ = walk.answered(Self.page("p\(turn)", short), took: .milliseconds(took))
            #expect(walk.request == .after(ArchivePoint(id: "p\(turn)", time: Self.point.time), most: most))
        }
        // More than that page was to hold.
        #expect(walk.answered(Self.page("p", short + 1)) == .fail(.overfull))
    }

    @Test("the same page again ends a walk; so do pages in a circle or without end, for this time")
    func endless() {
        var same = ArchiveWalk(.after(Self.point))
        #expect(same.answered(Self.page("a0")) == .fail(.stuck))
        var nameless = ArchiveWalk(.after(Self.point))
        #expect(nameless.answered(Self.page(nil)) == .fail(.stuck))
        var circle = ArchiveWalk(.after(Self.point))
        var steps = 0
        while steps <= ArchiveWalk.pageLimit {
            steps += 1
            guard case .save(_, end: nil) = circle.answered(Self.page(steps % 2 == 0 ? "a0" : "a1", 100)) else { break }
        }
        #expect(steps == ArchiveWalk.pageLimit)
    }
}
