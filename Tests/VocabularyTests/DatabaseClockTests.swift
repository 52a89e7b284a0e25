import Testing
import Vocabulary

@Suite("The database's clock, as a worker knows it")
struct DatabaseClockTests {
    private static let hour: Int64 = 3_600_000_000
    /// A little more than 40 days.
    private static let days: Int64 = 40 * 24 * hour + hour

    /// A moment of the monotonic clock, and what the system's clock, so much ahead of the database's, shows then.
    private static func moment(_ microseconds: Int64, ahead: Int64 = 0) -> ClockReading.Moment {
        ClockReading.Moment(
            wall: Timestamp(microseconds: hour + microseconds + ahead),
            monotonic: MonotonicTime(nanoseconds: UInt64(microseconds) * 1_000)
        )
    }

    /// A reading that took so many microseconds; the database's clock shows an hour more than the monotonic one.
    private static func reading(
        _ asked: Int64,
        taking duration: Int64,
        ahead: Int64 = 0,
        behind: Int64 = 0
    ) -> ClockReading {
        ClockReading(
            asked: moment(asked, ahead: ahead),
            database: Timestamp(microseconds: hour + asked + duration / 2 - behind),
            answered: moment(asked + duration, ahead: ahead)
        )
    }

    private static func at(_ microseconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: UInt64(microseconds) * 1_000)
    }

    @Test("before the first reading it is the system's clock, and goes on with the monotonic one")
    func unread() {
        let clock = DatabaseClock(Self.moment(1_000, ahead: 5), monotonic: { Self.at(3_000) })
        #expect(clock.now() == Self.hour + 3_005)
        #expect(clock.time(at: Self.at(2_000)) == Self.hour + 2_005)
        #expect(clock.difference == nil && !clock.hasStepped(since: Self.at(0)))
    }

    @Test("a reading that leaves it possible changes nothing; one that rules it out sets it", arguments: [1, -1])
    func learns(sign: Int64) {
        let clock = DatabaseClock(Self.moment(0, ahead: sign * 400))
        clock.learn(Self.reading(1_000, taking: 1_000, ahead: sign * 400))
        #expect(clock.time(at: Self.at(5_000)) == Self.hour + 5_000 + sign * 400, "within what the answer took")
        let other = DatabaseClock(Self.moment(0, ahead: sign * 400))
        other.learn(Self.reading(6_000, taking: 200))
        #expect(other.time(at: Self.at(7_000)) == Self.hour + 6_900, "the least that the reading allows")
        other.learn(Self.reading(8_000, taking: 100, behind: 300))
        #expect(other.time(at: Self.at(9_000)) == Self.hour + 8_650)
        #expect(!other.hasStepped(since: Self.at(0)), "less than a second is no step")
    }

    @Test("for an hour after a step it goes forward by little, and back by a second or not at all")
    func goesForward() {
        let clock = DatabaseClock(Self.moment(0, ahead: Self.days))
        clock.learn(Self.reading(1_000, taking: 1_000))
        #expect(clock.time(at: Self.at(0)) == Self.hour - 500)
        // A faster answer knows better.
        clock.learn(Self.reading(3_000, taking: 200))
        #expect(clock.time(at: Self.at(0)) == Self.hour - 100)
        clock.learn(Self.reading(5_000, taking: 200, behind: 900_000))
        #expect(clock.time(at: Self.at(0)) == Self.hour - 100)
        clock.learn(Self.reading(7_000, taking: 200, behind: 1_100_000))
        #expect(clock.time(at: Self.at(0)) == Self.hour - 100 - 1_100_000)
        #expect(!clock.hasStepped(since: Self.at(2_000_000)), "what was stamped is ahead by little, and keeps its time")
        clock.learn(Self.reading(5_000_000, taking: 200, behind: 1_100_000 + 61_000_000))
        #expect(clock.hasStepped(since: Self.at(2_000_000)))
        // Nothing waits that long.
        clock.learn(Self.reading(4 * Self.hour, taking: 200, behind: 63_000_000))
        #expect(clock.time(at: Self.at(0)) == Self.hour - 100 - 63_000_000)
    }

    @Test("steps back add up, for as long as stamps are ahead")
    func addsUp() {
        for (pause, isStep) in [(1_000_000, true), (40_000_000, false)] as [(Int64, Bool)] {
            let clock = DatabaseClock(Self.moment(0), monotonic: { Self.at(0) })
            clock.learn(Self.reading(1_000, taking: 200))
            clock.learn(Self.reading(2_000_000, taking: 200, behind: 31_000_000))
            #expect(!clock.hasStepped(since: Self.at(1_000)))
            clock.learn(Self.reading(2_000_000 + pause, taking: 200, behind: 61_000_000))
            #expect(clock.hasStepped(since: Self.at(1_000)) == isStep)
        }
        // A step forward between them changes nothing about what is ahead.
        let clock = DatabaseClock(Self.moment(0), monotonic: { Self.at(0) })
        clock.learn(Self.reading(1_000, taking: 200))
        clock.learn(Self.reading(2_000_000, taking: 200, behind: 31_000_000))
        clock.learn(Self.reading(4_000_000, taking: 200, behind: 26_000_000))
        #expect(clock.hasStepped(since: Self.at(1_000)))
        clock.learn(Self.reading(6_000_000, taking: 200, behind: 66_000_000))
        #expect(clock.hasStepped(since: Self.at(5_500_000)))
    }

    @Test("what was stamped before a step is told from what was stamped after it, and a second more")
    func steps() {
        let clock = DatabaseClock(Self.moment(0, ahead: -Self.days))
        clock.learn(Self.reading(10_000_000, taking: 100, ahead: -Self.days))
        #expect(clock.time(at: Self.at(3)) == Self.hour + 3 - 50)
        #expect(clock.hasStepped(since: Self.at(9_000_000)) && clock.hasStepped(since: Self.at(10_500_000)))
        #expect(!clock.hasStepped(since: Self.at(11_500_000)))
        #expect(clock.difference?.description == "this machine's clock is 40 days behind the database's")
        // The system's clock is set: stamps stay where they are.
        clock.learn(Self.reading(20_000_000, taking: 100))
        #expect(clock.time(at: Self.at(20_000_000)) == Self.hour + 20_000_000 - 50)
        #expect(clock.difference?.isNotable == false && !clock.hasStepped(since: Self.at(19_000_000)))
    }

    @Test("a difference of more than a minute is told, in words", arguments: [(61, "61 s"), (120, "2 minutes")])
    func words(seconds: Int64, amount: String) {
        let zero = Timestamp(microseconds: 0)
        let other = Timestamp(microseconds: seconds * 1_000_000)
        let difference = ClockDifference(asked: other, database: zero, answered: other)
        #expect(difference.isNotable)
        #expect(difference.description == "this machine's clock is \(amount) ahead of the database's")
        #expect(!ClockDifference(asked: other - .seconds(seconds - 60), database: zero, answered: other).isNotable)
    }
}
