import Testing

@testable import Replaying

@Suite("Replays: pace")
struct ReplayPacerTests {
    private static let second: UInt64 = 1_000_000_000

    /// Sends as a pace allows, with a target that takes `cost` nanoseconds for each batch, and gives the time of each.
    private func run(
        _ pace: ReplayPace,
        _ count: Int,
        times: (Int) -> Int64 = { _ in 0 },
        cost: UInt64 = 0,
        stop: (after: Int, length: UInt64)? = nil
    ) -> [UInt64] {
        var now: UInt64 = 5 * Self.second
        let start = now
        var pacer = ReplayPacer(pace, now: now)
        var sent: [UInt64] = []
        while sent.count < count {
            let rest = min(1_000, count - sent.count)
            switch pacer.allowance(of: rest, times: (0..<rest).map { times(sent.count + $0) }, now: now) {
            case .wait(let time): now += time
            case .send(let part):
                sent += Array(repeating: now - start, count: part)
                pacer.sent(part)
                now += cost
                if let stop, sent.count - part < stop.after, sent.count >= stop.after { now += stop.length }
            }
        }
        return sent
    }

    @Test("no limit: everything at once")
    func unlimited() {
        #expect(run(ReplayPace(), 5_000).last == 0)
    }

    @Test("a rate is held within 10 % over every 5 seconds", arguments: [0.5, 7, 100, 2_500, 40_000])
    func rate(_ rate: Double) {
        let sent = run(ReplayPace(rate: rate), Int(rate * 20), cost: 3_000_000)
        let length = Double(sent.last ?? 0) / 1e9
        #expect(abs(length - 20) < 2, "\(length)")
        for start in stride(from: 0.0, to: 14, by: 1) {
            let window = (UInt64(start * 1e9)..<UInt64((start + 5) * 1e9))
            let inside = sent.count { window.contains($0) }
            #expect(Double(inside) <= rate * 5 * 1.1 + 1, "\(inside) from \(start)")
            #expect(Double(inside) >= rate * 5 * 0.9 - 1, "\(inside) from \(start)")
        }
    }

    @Test("a long stop is not made up for by a flood")
    func stop() {
        let sent = run(ReplayPace(rate: 100), 2_000, stop: (after: 500, length: 60 * Self.second))
        let resumed = sent[600]
        #expect(resumed > 60 * Self.second)
        let flood = sent.count { $0 >= 65 * Self.second && $0 < 66 * Self.second }
        #expect(flood <= 210, "one second's worth may be caught up with")
    }

    @Test("original pacing: the distances between messages, divided by the speed", arguments: [1.0, 10])
    func speed(_ speed: Double) {
        // A message every 100 ms, then a hole of a minute.
        let sent = run(ReplayPace(speed: speed), 40, times: { Int64($0) * 100_000 + ($0 < 20 ? 0 : 60_000_000) })
        for (index, time) in sent.enumerated() {
            let wanted = (Double(index) * 0.1 + (index < 20 ? 0 : 60)) / speed
            #expect(abs(Double(time) / 1e9 - wanted) < 0.01, "\(index): \(time)")
        }
    }

    @Test("speed and rate together: the slower one")
    func both() {
        let sent = run(ReplayPace(rate: 10, speed: 1), 100, times: { Int64($0) * 1_000 })
        #expect(Double(sent.last ?? 0) / 1e9 > 9)
    }
}
