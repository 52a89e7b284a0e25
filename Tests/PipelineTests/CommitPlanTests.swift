import Testing

@testable import Pipeline

@Suite("How a batch gets committed: whole, in halves around a refused row, again after an outage")
struct CommitPlanTests {
    @Test("A batch that the database takes is one transaction")
    func whole() {
        var plan = CommitPlan(count: 7)
        #expect(plan.begin() == .commit(0..<7))
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
        #expect(plan.refused() == .commit(0..<1))
        #expect(plan.unavailable() == .wait(attempt: 1, then: 0..<1))
        #expect(plan.committed() == .commit(1..<3))
        #expect(plan.committed() == .done)
    }

    @Test("A refused single row goes to quarantine; refused there too, it waits and is never dropped")
    func single() {
        var plan = CommitPlan(count: 1)
        _ = plan.begin()
        #expect(plan.refused() == .quarantine(0))
        #expect(plan.refused() == .wait(attempt: 1, then: 0..<1))
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
                case .commit(let range):
                    if range.contains(where: { bad & (1 << $0) != 0 }) {
                        action = plan.refused()
                    } else {
                        committed.append(contentsOf: range)
                        action = plan.committed()
                    }
                case .quarantine(let index):
                    marked.insert(index)
                    committed.append(index)
                    action = plan.committed()
                case .wait, .done:
                    Issue.record("no outage happened")
                    return
                }
            }
            #expect(committed.sorted() == Array(0..<count))
            #expect(marked == Set((0..<count).filter { bad & (1 << $0) != 0 }))
        }
    }

    @Test("Delays double up to the maximum, and the jitter is the whole delay")
    func backoff() {
        let backoff = Backoff(initial: .seconds(1), maximum: .seconds(60))
        let ceilings = (1...9).map { backoff.ceiling(attempt: $0) }
        #expect(ceilings == [1, 2, 4, 8, 16, 32, 60, 60, 60].map { Duration.seconds($0) })
        #expect(backoff.ceiling(attempt: .max) == .seconds(60))
        #expect(backoff.delay(attempt: 3, random: 0) == .zero)
        #expect(backoff.delay(attempt: 3, random: 0.5) == .seconds(2))
    }
}
