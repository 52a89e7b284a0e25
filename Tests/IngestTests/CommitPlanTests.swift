import Testing

@testable import Ingest

@Suite("How a batch gets committed: whole, in halves around a refused row, again after an outage")
struct CommitPlanTests {
    @Test("A batch that the database takes is one transaction")
    func whole() {
        var plan = CommitPlan(count: 7)
        #expect(plan.begin() == .commit(0..<7, isRetry: false))
        #expect(plan.committed() == .done)
    }

    @Test("An empty batch is done at once")
    func empty() {
        #expect(CommitPlan(count: 0).begin() == .done)
    }

    @Test("An outage commits the same range again, as often as it takes, and the attempts start over afterwards")
    func outage() {
        var plan = CommitPlan(count: 3)
        _ = plan.begin()
        #expect(plan.unavailable() == .wait(attempt: 1, then: 0..<3))
        #expect(plan.unavailable() == .wait(attempt: 2, then: 0..<3))
        #expect(plan.refused() == .commit(0..<1, isRetry: true))
        #expect(plan.unavailable() == .wait(attempt: 1, then: 0..<1))
        #expect(plan.committed() == .commit(1..<3, isRetry: true))
        #expect(plan.committed() == .done)
    }

    @Test("A refused single row goes to quarantine; refused there too, it waits and is never dropped")
    func single() {
        var plan = CommitPlan(count: 1)
        _ = plan.begin()
        #expect(plan.refused() == .quarantine(0, isRetry: false))
        #expect(plan.refused() == .clear(0, attempt: 1))
        #expect(plan.committed() == .done)
    }

    @Test("A database that can't take the quarantine's row has not proved that the message is bad")
    func unprovenRefusal() {
        var plan = CommitPlan(count: 2)
        _ = plan.begin()
        #expect(plan.refused() == .commit(0..<1, isRetry: false))
        #expect(plan.refused() == .quarantine(0, isRetry: false))
        #expect(plan.unavailable() == .clear(0, attempt: 1))
        #expect(plan.refused() == .quarantine(0, isRetry: true))
        #expect(plan.timedOut(sizes: [1, 1], ceiling: 1) == .clear(0, attempt: 2))
        #expect(plan.unavailable() == .wait(attempt: 3, then: 0..<1))
        #expect(plan.committed() == .commit(1..<2, isRetry: false))
        #expect(plan.refused() == .quarantine(1, isRetry: false))
        #expect(plan.committed() == .done)
    }

    @Test("For every set of bad rows, the good ones commit and exactly the bad ones are marked", arguments: 1...10)
    func everySetOfBadRows(count: Int) {
        for bad in 0..<(1 << count) {
            var plan = CommitPlan(count: count)
            var action = plan.begin()
            var committed: [Int] = []
            var marked: Set<Int> = []
            while action != .done {
                switch action {
                case .commit(let range, _):
                    if range.contains(where: { bad & (1 << $0) != 0 }) {
                        action = plan.refused()
                    } else {
                        committed.append(contentsOf: range)
                        action = plan.committed()
                    }
                case .quarantine(let index, _):
                    marked.insert(index)
                    committed.append(index)
                    action = plan.committed()
                case .clear, .wait, .stamp, .done:
                    Issue.record("no outage happened")
                    return
                }
            }
            #expect(committed.sorted() == Array(0..<count))
            #expect(marked == Set((0..<count).filter { bad & (1 << $0) != 0 }))
        }
    }

    @Test(
        "A limit of our own cuts the range and all that follows at the new ceiling, without a wait, as retries of what was tried"
    )
    func timedOut() {
        let sizes = [10, 10, 10, 10, 50, 10, 10, 10]
        var plan = CommitPlan(sizes: sizes, ceiling: 80)
        #expect(plan.begin() == .commit(0..<4, isRetry: false))
        #expect(plan.timedOut(sizes: sizes, ceiling: 20) == .commit(0..<2, isRetry: true))
        #expect(plan.committed() == .commit(2..<4, isRetry: true))
        // Nobody has tried these yet; the large one goes alone.
        #expect(plan.committed() == .commit(4..<5, isRetry: false))
        #expect(plan.timedOut(sizes: sizes, ceiling: 20) == .wait(attempt: 1, then: 4..<5))
        #expect(plan.timedOut(sizes: sizes, ceiling: 20) == .wait(attempt: 2, then: 4..<5))
        #expect(plan.committed() == .commit(5..<7, isRetry: false))
        // A ceiling that is no help: in halves all the same.
        #expect(plan.timedOut(sizes: sizes, ceiling: 20) == .commit(5..<6, isRetry: true))
        #expect(plan.committed() == .commit(6..<7, isRetry: true))
        #expect(plan.committed() == .commit(7..<8, isRetry: false))
        #expect(plan.committed() == .done)
    }

    @Test("Whatever the sizes and the ceilings, every message is committed once, in order, in parts below the ceiling")
    func everyCeiling() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<500 {
            let sizes = (0..<Int.random(in: 1...40, using: &random)).map { _ in Int.random(in: 1...100, using: &random)
            }
            var ceiling = Int.random(in: 1...2_000, using: &random)
            var plan = CommitPlan(sizes: sizes, ceiling: ceiling)
            var action = plan.begin()
            var next = 0
            while action != .done {
                guard case .commit(let range, _) = action else {
                    guard case .wait(_, let range) = action else {
                        Issue.record("\(action)")
                        break
                    }
                    #expect(range.count == 1)
                    next = range.upperBound
                    action = plan.committed()
                    continue
                }
                #expect(range.lowerBound == next && !range.isEmpty)
                #expect(range.count == 1 || sizes[range].reduce(0, +) <= ceiling)
                if Int.random(in: 0..<3, using: &random) == 0 {
                    ceiling = max(1, sizes[range].reduce(0, +) / 2)
                    action = plan.timedOut(sizes: sizes, ceiling: ceiling)
                } else {
                    next = range.upperBound
                    action = plan.committed()
                }
            }
            #expect(next == sizes.count)
        }
    }

    @Test(
        "A link of any speed settles at a size that commits within the limit, and one that recovers is back at whole batches"
    )
    func pace() {
        let limit = Duration.seconds(30)
        for bytesPerSecond in [2_000, 20_000, 100_000, 1_000_000] {
            var pace = AdaptiveBatchSize(largest: 4 << 20)
            var timeOuts: [Int] = []
            for step in 0..<200 {
                let bytes = min(pace.ceiling ?? 4 << 20, 4 << 20)
                let duration = Duration.seconds(Double(bytes) / Double(bytesPerSecond))
                if duration > limit {
                    timeOuts.append(step)
                    _ = pace.timedOut(bytes: bytes, after: limit)
                } else {
                    pace.committed(bytes: bytes, after: duration)
                }
            }
            #expect(timeOuts.allSatisfy { $0 < 12 }, "\(bytesPerSecond): \(timeOuts)")
            // As much as goes into a third of the limit, at least.
            #expect(pace.ceiling ?? 4 << 20 >= min(10 * bytesPerSecond, 4 << 20), "\(bytesPerSecond): \(pace)")
            for _ in 0..<10 { pace.committed(bytes: pace.ceiling ?? 4 << 20, after: .milliseconds(10)) }
            #expect(pace.ceiling == nil)
        }
    }

    @Test("A small commit says nothing of the ceiling, and the ceiling has a floor")
    func paceBounds() {
        var pace = AdaptiveBatchSize(largest: 1 << 20)
        #expect(pace.ceiling == nil)
        #expect(pace.timedOut(bytes: 1 << 20, after: .seconds(30)) == 1 << 19)
        pace.committed(bytes: 100, after: .milliseconds(1))
        #expect(pace.ceiling == 1 << 19)
        for _ in 0..<20 { _ = pace.timedOut(bytes: pace.ceiling ?? 0, after: .seconds(30)) }
        #expect(pace.ceiling == AdaptiveBatchSize.floor)
    }
}
