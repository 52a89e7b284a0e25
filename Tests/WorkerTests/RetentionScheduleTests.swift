import MessageStore
import Testing
import Worker

@Suite("retention runs once a day, soon after midnight, and makes up for what it missed")
struct RetentionScheduleTests {
    private static let day: Int64 = 86_400_000_000
    private static let minute: Int64 = 60_000_000

    @Test("the next run is the first quarter of an hour after a midnight to come", arguments: [0.0, 0.5, 0.99])
    func next(spread: Double) {
        let schedule = RetentionSchedule(spread: spread)
        let midnight = 20_000 * Self.day
        for now in [
            midnight - 1, midnight, midnight + 5 * Self.minute, midnight + 50 * Self.minute, midnight + Self.day / 2,
        ] {
            let next = schedule.next(after: now, isComplete: true)
            let ofDay = next % Self.day
            #expect(next > now && next - now <= Self.day)
            #expect(ofDay >= 15 * Self.minute && ofDay < 45 * Self.minute)
        }
    }

    @Test("the run after the day's run is tomorrow's")
    func once() {
        let schedule = RetentionSchedule(spread: 0.3)
        let first = schedule.next(after: 20_000 * Self.day, isComplete: true)
        #expect(schedule.next(after: first + 1, isComplete: true) == first + Self.day)
        #expect(schedule.next(after: first, isComplete: true) == first + Self.day)
    }

    @Test("what was left is made up for within half an hour")
    func again() {
        for spread in [0.0, 0.99] {
            let wait = RetentionSchedule(spread: spread).next(after: 7, isComplete: false) - 7
            #expect(wait >= 15 * Self.minute && wait <= 30 * Self.minute)
        }
    }
}
