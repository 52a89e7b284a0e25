import Testing

@testable import Worker

@Suite("What goes on is told once a minute")
struct ReminderTests {
    @Test("at once, then after each minute, and at once again after its end")
    func reminds() {
        var reminder = Reminder()
        let start = ContinuousClock.now
        let told = [0, 0.5, 59, 60, 119].map { reminder.isDue(start + .seconds($0)) }
        #expect(told == [true, false, false, true, false])
        reminder.end()
        let again = reminder.isDue(start + .seconds(61))
        #expect(again)
    }
}
