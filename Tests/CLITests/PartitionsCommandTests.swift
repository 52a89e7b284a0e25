import Testing
import Vocabulary

@testable import CLI
@testable import MessageStore

/// How `partitions run` ends: as values, since a day that is constantly being read is tried for two minutes.
struct PartitionsCommandTests {
    private static let day = PartitionPlan(
        Partition(
            name: "messages_20260301",
            rows: nil,
            bytes: 0,
            day: UTCDay(microseconds: 1_772_366_400_000_000),
            end: Timestamp(microseconds: 1_772_452_800_000_000)
        ),
        needs: (waiting: 0, deadLetters: 0),
        policy: RetentionPolicy(messages: .seconds(30 * 86_400), dedupeWindow: .seconds(35 * 86_400)),
        now: .now
    )

    private func status(_ change: (inout RetentionReport) -> Void) -> Int32? {
        var report = RetentionReport()
        change(&report)
        do {
            try PartitionsRun.judge(report)
            return 0
        } catch {
            return (error as? CommandFailure)?.status.rawValue
        }
    }

    @Test("what is left for want of a lock is a temporary failure, even where something else is kept for longer")
    func endings() {
        #expect(status { $0.dropped = [Self.day] } == 0)
        #expect(status { $0.held = [Self.day] } == 1)
        #expect(status { $0.locked = [Self.day] } == 75)
        #expect(status { $0.attemptDaysLocked = 1 } == 75)
        #expect(status { ($0.locked, $0.held) = ([Self.day], [Self.day]) } == 75)
        #expect(status { $0.isBusy = true } == 75)
    }
}
