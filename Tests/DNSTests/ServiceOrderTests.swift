import Testing

@testable import DNS

/// The order of RFC 2782.
@Suite("The order of service records") struct ServiceOrderTests {
    private func record(_ priority: UInt16, _ weight: UInt16, _ target: String) -> ServiceRecord {
        ServiceRecord(priority: priority, weight: weight, port: 1, target: target)
    }

    private func order(_ records: [ServiceRecord], seed: UInt64) -> [String] {
        var generator = SplitMix(state: seed)
        return ServiceRecord.ordered(records, by: { $0 }, using: &generator).map(\.target)
    }

    @Test("priorities ascend, whatever the weights and the order of the answer")
    func priorities() {
        let records = [record(30, 65_535, "c"), record(10, 0, "a"), record(20, 1, "b"), record(65_535, 9, "d")]
        for seed in 0..<50 { #expect(order(records, seed: UInt64(seed)) == ["a", "b", "c", "d"]) }
        #expect(order([], seed: 1) == [])
    }

    @Test("within a priority the first place goes by weight, and every record has a place")
    func weights() {
        let records = [record(1, 60, "a"), record(1, 30, "b"), record(1, 10, "c")]
        var firsts: [String: Int] = [:]
        for seed in 0..<10_000 {
            let order = order(records, seed: UInt64(seed))
            #expect(order.sorted() == ["a", "b", "c"])
            firsts[order[0], default: 0] += 1
        }
        // The draw is of 101 numbers, 0 to 100.
        #expect((5_700...6_300).contains(firsts["a"] ?? 0), "\(firsts)")
        #expect((2_700...3_300).contains(firsts["b"] ?? 0), "\(firsts)")
        #expect((800...1_200).contains(firsts["c"] ?? 0), "\(firsts)")
    }

    @Test("one without weight has a small chance before those with, and all of them are drawn where none has any")
    func withoutWeight() {
        let records = [record(1, 99, "heavy"), record(1, 0, "light")]
        let first = (0..<10_000).count { order(records, seed: UInt64($0))[0] == "light" }
        // 1 of 100.
        #expect((40...200).contains(first), "\(first)")
        let none = [record(1, 0, "a"), record(1, 0, "b")]
        for seed in 0..<20 { #expect(order(none, seed: UInt64(seed)).sorted() == ["a", "b"]) }
    }
}
