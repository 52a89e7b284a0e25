import Testing
import Vocabulary
import Worker

@Suite("retention runs once a day, soon after midnight, and makes up for what it missed")
struct RetentionScheduleTests {
    private static let day = Duration.seconds(86_400)
    private static let minute = Duration.seconds(60)

    @Test("the next run is the first quarter of an hour after a midnight to come", arguments: [0.0, 0.5, 0.99])
    func next(spread: Double) {
        let schedule = RetentionSchedule(spread: spread)
        let midnight = Timestamp(microseconds: 0) + Self.day * 20_000
        let times = [.microseconds(-1), .zero, Self.minute * 5, Self.minute * 50, Self.day / 2]
        for now in times.map({ midnight + $0 }) {
            let next = schedule.next(after: now, isComplete: true)
            let ofDay = Duration.microseconds(next.microseconds % Self.day.microseconds)
            #expect(next > now && next - now <= Self.day)
            #expect(ofDay >= Self.minute * 15 && ofDay < Self.minute * 45)
        }
    }

    @Test("the run after the day's run is tomorrow's")
    func once() {
        let schedule = RetentionSchedule(spread: 0.3)
        let first = schedule.next(after: Timestamp(microseconds: 0) + Self.day * 20_000, isComplete: true)
        #expect(schedule.next(after: first + .microseconds(1), isComplete: true) == first + Self.day)
        #expect(schedule.next(after: first, isComplete: true) == first + Self.day)
    }

    @Test("what was left is made up for within half an hour")
    func again() {
        for spread in [0.0, 0.99] {
            let now = Timestamp(microseconds: 7)
            let wait = RetentionSchedule(spread: spread).next(after: now, isComplete: false) - now
            #expect(wait >= Self.minute * 15 && wait <= Self.minute * 30)
        }
    }
}
