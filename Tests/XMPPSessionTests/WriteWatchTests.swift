import Testing
import XMPP

@testable import XMPPSession

@Suite("How long the oldest write has waited")
struct WriteWatchTests {
    @Test("nothing is due while nothing waits")
    func idle() {
        var watch = WriteWatch(limit: 16_000_000)
        #expect(watch.due == nil)
        let first = watch.wrote(now: 5)
        #expect(watch.due == 17_000_005)
        watch.patience = 8
        #expect(watch.due == 129_000_005)
        watch.ended(first)
        #expect(watch.due == nil)
    }

    @Test("the oldest write counts, never early and at most a sixteenth late, however many follow")
    func manyWrites() {
        let limit: UInt64 = 160_000_000
        var watch = WriteWatch(limit: limit)
        var times: [UInt64] = [0]
        // One each microsecond; the oldest third is taken, in steps of different sizes.
        for number in 1...100_000 {
            times.append(UInt64(number) * 1_000)
            _ = watch.wrote(now: times[number])
        }
        for ended in [1, 2, 500, 9_999, 20_000, 33_333, 99_999] {
            watch.ended(UInt64(ended))
            let oldest = times[ended + 1]
            let due = watch.due ?? 0
            #expect(due + limit / 16 >= oldest + limit && due <= oldest + limit + limit / 16, "\(ended)")
        }
        watch.ended(100_000)
        #expect(watch.due == nil)
    }

    @Test("by TCP's counters: what is not acknowledged is due, and not while it moves")
    func counters() {
        var watch = WriteWatch(limit: 16_000)
        // At the least a millisecond.
        let limit: UInt64 = 1_062_500
        watch.look(nil, now: 1)
        #expect(watch.due == nil)
        watch.look(SentBytes(acked: 500, waiting: 0), now: 10)
        #expect(watch.due == nil)
        watch.look(SentBytes(acked: 500, waiting: 80), now: 20)
        #expect(watch.due == 20 + limit)
        watch.look(SentBytes(acked: 500, waiting: 90), now: 30)
        #expect(watch.due == 20 + limit)
        watch.look(SentBytes(acked: 501, waiting: 89), now: 40)
        #expect(watch.due == 40 + limit)
        // A write that the kernel has not taken waits no longer than what it has: bytes move.
        let number = watch.wrote(now: 50)
        #expect(watch.due == 40 + limit)
        watch.look(SentBytes(acked: 590, waiting: 0), now: 60)
        #expect(watch.due == 60 + limit)
        watch.ended(number)
        #expect(watch.due == nil)
        // The same count as long before, and new bytes.
        watch.look(SentBytes(acked: 590, waiting: 1), now: 9_000_000)
        #expect(watch.due == 9_000_000 + limit)
    }
}
