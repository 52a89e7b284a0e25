/// A reading of the database's clock, with our times before and after it.
package struct ClockReading: Sendable, Equatable {
    package struct Moment: Sendable, Equatable {
        package var wall: Timestamp
        package var monotonic: MonotonicTime

        package init(wall: Timestamp, monotonic: MonotonicTime) {
            self.wall = wall
            self.monotonic = monotonic
        }

        package static var now: Moment { Moment(wall: .now, monotonic: .now) }
    }

    package var asked: Moment
    package var database: Timestamp
    package var answered: Moment

    package init(asked: Moment, database: Timestamp, answered: Moment = .now) {
        self.asked = asked
        self.database = database
        self.answered = answered
    }
}
