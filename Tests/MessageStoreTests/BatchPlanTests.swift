import Testing
import Vocabulary

@testable import MessageStore

@Suite("what a batch asks of the database, and what the answers mean")
struct BatchPlanTests {
    private func row(_ fingerprint: UInt64, _ time: Int64) -> BatchPlan.LedgerRow {
        BatchPlan.LedgerRow(
            fingerprint: Digest128(high: 0, low: fingerprint),
            receivedAt: Timestamp(microseconds: time)
        )
    }

    @Test("keys are sorted, and the first copy of each is stored")
    func keysAreSortedAndTheFirstCopyWins() {
        let five = IncomingMessage.make(5)
        let batch = [five, .make(1), five.copy(), .make(3, quarantine: .duplicateKey), .make(2)]
        let plan = BatchPlan(batch)
        let keys = plan.firsts.map { batch[$0].messageKey }
        #expect(keys == keys.sorted())
        #expect(Set(plan.firsts) == [0, 1, 4])
        #expect(plan.quarantined == [3])
    }

    /// Ledger time and fingerprint, each ours or another's: the whole table.
    @Test(
        "The ledger decides what is new",
        arguments: [
            (true, true, StoreOutcome.stored), (true, false, .duplicate), (false, true, .conflict),
            (false, false, .conflict),
        ]
    )
    func theLedgerDecides(sameContent: Bool, sameTime: Bool, outcome: StoreOutcome) {
        let message = IncomingMessage.make(1, fingerprint: 1, receivedAt: 100)
        let ledger = [message.messageKey: row(sameContent ? 1 : 2, sameTime ? 100 : 99)]
        let plan = BatchPlan([message])
        #expect(plan.outcomes([message], ledger: ledger) == [outcome])
        let others = plan.outcomes([message], ledger: ledger, mayBeOurs: false)
        #expect(others == [outcome == .stored ? .duplicate : outcome])
    }

    @Test("copies in one batch are compared with the ledger, not with each other")
    func copiesInOneBatchAreJudgedByTheLedgerNotByEachOther() {
        let first = IncomingMessage.make(1, fingerprint: 1, receivedAt: 100)
        let batch = [first, first.copy(receivedAt: 100), first.copy(fingerprint: 2)]
        let plan = BatchPlan(batch)
        #expect(plan.outcomes(batch, ledger: [first.messageKey: row(2, 7)]) == [.conflict, .conflict, .duplicate])
        #expect(plan.outcomes(batch, ledger: [first.messageKey: row(1, 100)]) == [.stored, .duplicate, .conflict])
        #expect(plan.outcomesAllNew(batch) == [.stored, .duplicate, .conflict])
    }

    @Test("a ledger row that vanished meanwhile asks for another attempt")
    func aVanishedLedgerRowAsksForAnotherTry() {
        let batch = [IncomingMessage.make(1)]
        #expect(BatchPlan(batch).outcomes(batch, ledger: [:]) == nil)
    }
}
