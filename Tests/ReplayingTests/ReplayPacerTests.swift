import Testing
import Vocabulary

@testable import Replaying

@Suite("Replays: pace")
struct ReplayPacerTests {
    /// Sends as a pace allows, to a target that takes `cost` for each batch.
    ///
    /// The run stands still for `length` seconds after `stop.after` messages.
    ///
    /// - Returns: When each message was sent, in seconds.
    private func run(
        _ pace: ReplayPace,
        _ count: Int,
        times: (Int) -> Timestamp = { _ in Timestamp(microseconds: 0) },
        cost: Duration = .zero,
        stop: (after: Int, length: Int)? = nil
    ) -> [Double] {
        var now = Duration.zero
        var pacer = ReplayPacer(pace)
        var sent: [Double] = []
        while sent.count < count {
            let rest = min(1_000, count - sent.count)
            switch pacer.allowance(of: rest, times: (0..<rest).map { times(sent.count + $0) }, now: now) {
            case .wait(let pause): now += pause
            case .send(let part):
                sent += Array(repeating: now / .seconds(1), count: part)
                pacer.sent(part)
                now += cost
                if let stop, sent.count - part < stop.after, sent.count >= stop.after { now += .seconds(stop.length) }
            }
        }
        return sent
    }

    @Test("without a limit everything goes at once")
    func unlimited() {
        #expect(run(ReplayPace(), 5_000).last == 0)
    }

    @Test("a rate is held within 10 % over every 5 seconds", arguments: [0.5, 7, 100, 2_500, 40_000])
    func rate(_ rate: Double) {
        let sent = run(ReplayPace(rate: rate), Int(rate * 20), cost: .milliseconds(3))
        let length = sent.last ?? 0
        #expect(abs(length - 20) < 2, "\(length)")
        for start in stride(from: 0.0, to: 14, by: 1) {
            let inside = sent.count { (start..<(start + 5)).contains($0) }
            #expect(Double(inside) <= rate * 5 * 1.1 + 1, "\(inside) from \(start)")
            #expect(Double(inside) >= rate * 5 * 0.9 - 1, "\(inside) from \(start)")
        }
    }

    @Test("a long stop is not followed by a flood")
    func stop() {
        let sent = run(ReplayPace(rate: 100), 2_000, stop: (after: 500, length: 60))
        #expect(sent[600] > 60)
        let flood = sent.count { (65.0..<66).contains($0) }
        #expect(flood <= 210, "one second's worth may be caught up with")
    }

    @Test("original pacing keeps the time between messages, divided by the speed", arguments: [1.0, 10])
    func speed(_ speed: Double) {
        // A message every 100 ms, then a gap of a minute.
        let sent = run(
            ReplayPace(speed: speed),
            40,
            times: { Timestamp(microseconds: Int64($0) * 100_000 + ($0 < 20 ? 0 : 60_000_000)) }
        )
        for (index, time) in sent.enumerated() {
            let wanted = (Double(index) * 0.1 + (index < 20 ? 0 : 60)) / speed
            #expect(abs(time - wanted) < 0.01, "\(index): \(time)")
        }
    }

    @Test("with a speed and a rate the slower one holds")
    func both() {
        let sent = run(ReplayPace(rate: 10, speed: 1), 100, times: { Timestamp(microseconds: Int64($0) * 1_000) })
        #expect((sent.last ?? 0) > 9)
    }
}
