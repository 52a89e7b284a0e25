import Testing

@testable import XMPPSession

@Suite("received_at")
struct ArrivalClockTests {
    @Test("No time is given twice, whichever threads ask")
    func uniqueUnderThreads() async {
        let clock = ArrivalClock(wall: { 1_000 })
        let times = await withTaskGroup(of: [Int64].self) { group in
            for _ in 0..<8 {
                group.addTask { (0..<2_000).map { _ in clock.unique(near: clock.now()) } }
            }
            return await group.reduce(into: [Int64]()) { all, some in
                #expect(zip(some, some.dropFirst()).allSatisfy { $0 < $1 })
                all += some
            }
        }
        #expect(Set(times).count == 16_000)
        #expect(times.min() == 1_000)
        #expect(times.max() == 16_999)
    }

    @Test("Moments are a microsecond apart at least, and never before their reading")
    func uniqueMoments() {
        let clock = ArrivalClock(wall: { 0 })
        let moments = [5_000_300, 5_000_300, 5_001_000, 9_000_000, 8_000_000].map { clock.uniqueMoment(near: $0) }
        #expect(moments == [5_000_300, 5_001_300, 5_002_300, 9_000_000, 9_001_000])
    }

    @Test("The wall clock is followed; set back, it is waited for")
    func followsTheWallClock() {
        let clock = ArrivalClock(wall: { 0 })
        #expect(clock.unique(near: 500) == 500)
        #expect(clock.unique(near: 500) == 501)
        #expect(clock.unique(near: 900) == 900)
        #expect(clock.unique(near: 100) == 901)
        #expect(clock.unique(near: 902) == 902)
    }

    @Test("A jump forward and back again is left behind: times follow the clock once it is more than a minute behind")
    func jumpForward() {
        let clock = ArrivalClock(wall: { 0 })
        let hour: Int64 = 3_600_000_000
        let now: Int64 = 1_800_000_000_000_000
        #expect(clock.unique(near: now) == now)
        #expect(clock.unique(near: now + hour) == now + hour)
        // Set right: at once, and on from there.
        #expect(clock.unique(near: now + 5) == now + 5)
        #expect(clock.unique(near: now + 5) == now + 6)
        #expect(clock.unique(near: now + 100) == now + 100)
    }

    @Test("A clock that is up to a minute behind is waited for, so that times neither repeat nor go back")
    func smallSteps() {
        let clock = ArrivalClock(wall: { 0 })
        let now: Int64 = 1_800_000_000_000_000
        #expect(clock.unique(near: now) == now)
        #expect(clock.unique(near: now - ArrivalClock.maximumStepBack) == now + 1)
        #expect(clock.unique(near: now + 1 - ArrivalClock.maximumStepBack) == now + 2)
        #expect(clock.unique(near: now + 1 - ArrivalClock.maximumStepBack) == now + 1 - ArrivalClock.maximumStepBack)
    }
}
