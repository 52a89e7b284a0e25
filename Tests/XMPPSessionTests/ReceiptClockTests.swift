import Synchronization
import Testing

@testable import XMPPSession

@Suite("received_at")
struct ReceiptClockTests {
    @Test("No time is given twice, whichever threads ask")
    func uniqueUnderThreads() async {
        let clock = ReceiptClock(wall: { 1_000 })
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

    @Test("The wall clock is followed; set back, it is waited for")
    func followsTheWallClock() {
        let clock = ReceiptClock(wall: { 0 })
        #expect(clock.unique(near: 500) == 500)
        #expect(clock.unique(near: 500) == 501)
        #expect(clock.unique(near: 900) == 900)
        #expect(clock.unique(near: 100) == 901)
        #expect(clock.unique(near: 902) == 902)
    }
}
