/// What the database's clock showed, and between which two moments of this process it was asked.
package struct ClockReading: Sendable, Equatable {
    /// A moment by both clocks of this machine.
    package struct Moment: Sendable, Equatable {
        /// The system's clock.
        package var wall: Timestamp
        /// The monotonic clock.
        package var monotonic: MonotonicTime

        package init(wall: Timestamp, monotonic: MonotonicTime) {
            self.wall = wall
            self.monotonic = monotonic
        }

        /// This moment.
        package static var now: Moment { Moment(wall: .now, monotonic: .now) }
    }

    /// Before the question was sent.
    package var asked: Moment
    /// The database's answer.
    package var database: Timestamp
    /// After the answer had come.
    package var answered: Moment

    package init(asked: Moment, database: Timestamp, answered: Moment = .now) {
        self.asked = asked
        self.database = database
        self.answered = answered
    }
}
