import Dispatcher
import Testing

/// How a call of several messages is taken apart.
@Suite struct CallPlanTests {
    /// Runs a plan whose transactions end as the function says; returns the messages of each.
    private func run(_ plan: inout CallPlan, _ end: ([Int]) -> CallPlan.Outcome) -> [[Int]] {
        var transactions: [[Int]] = []
        while let places = plan.next() {
            transactions.append(places)
            plan.ended(end(places))
        }
        return transactions
    }

    private func text(_ end: CallEnd) -> [String] {
        end.ends.map { end in
            switch end {
            case .settled: "settled"
            case .lost: "lost"
            case .alone: "alone"
            case .verdict(let verdict): "\(verdict)".split(separator: "(").first.map(String.init) ?? ""
            }
        }
    }

    private let failure = HandlerFailure("bad")

    @Test("Whatever messages are at fault, they alone fail")
    func atFault() {
        for count in 1...7 {
            for mask in 0..<(1 << count) {
                let isBad = (0..<count).map { mask >> $0 & 1 == 1 }
                var plan = CallPlan(count: count)
                let transactions = run(&plan) { places in
                    guard places.contains(where: { isBad[$0] }) else { return .ended(places.map { _ in .settled }) }
                    return places.count > 1 ? .failed : .ended([.verdict(.retry(after: nil, failure))])
                }
                #expect(text(plan.end) == isBad.map { $0 ? "retry" : "settled" })
                #expect(plan.end.areTogether)
                #expect(transactions.count < 2 * count)
                if mask == 0 { #expect(transactions == [Array(0..<count)] && plan.hasSettledAll) }
            }
        }
    }

    @Test("Messages that only disturb each other are all done, and are not taken together")
    func disturbed() {
        var plan = CallPlan(count: 5)
        let transactions = run(&plan) { $0.count > 2 ? .failed : .ended($0.map { _ in .settled }) }
        #expect(transactions == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4]])
        #expect(plan.hasSettledAll && !plan.end.areTogether)
    }

    @Test("Those whose leases have passed on are lost, and the others are taken together")
    func held() {
        var plan = CallPlan(count: 4)
        let transactions = run(&plan) { $0.count == 4 ? .held([1, 3]) : .ended($0.map { _ in .settled }) }
        #expect(transactions == [[0, 1, 2, 3], [1, 3]])
        #expect(text(plan.end) == ["lost", "settled", "lost", "settled"] && plan.end.areTogether)
        var all = CallPlan(count: 2)
        #expect(run(&all) { _ in .held([]) } == [[0, 1]])
        #expect(text(all.end) == ["lost", "lost"])
    }

    @Test("After a time-out or a lost session what has no end goes alone, later")
    func stopped() {
        var plan = CallPlan(count: 4)
        let transactions = run(&plan) { places in
            places.count == 4 ? .failed : places == [0, 1] ? .ended([.settled, .settled]) : .stopped
        }
        #expect(transactions == [[0, 1, 2, 3], [0, 1], [2, 3]])
        #expect(text(plan.end) == ["settled", "settled", "alone", "alone"] && !plan.end.areTogether)
    }

    @Test("A function that can't be called is called no more")
    func unavailable() {
        var plan = CallPlan(count: 4)
        let transactions = run(&plan) { places in
            places.count > 1 ? .failed : .ended([.verdict(.unavailable(after: nil, failure))])
        }
        #expect(transactions == [[0, 1, 2, 3], [0, 1], [0]])
        #expect(text(plan.end) == ["unavailable", "alone", "alone", "alone"] && plan.end.areTogether)
    }
}
