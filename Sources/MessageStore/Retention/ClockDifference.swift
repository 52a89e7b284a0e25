import Postgres
import Vocabulary

/// How far this process's clock is from the database's.
package struct ClockDifference: Sendable, Equatable {
    /// Beyond this much nobody knows which of the two is right.
    package static let limit = Duration.seconds(300)

    /// Microseconds that this process's clock is ahead; below zero where it is behind.
    ///
    /// What the question's way there and back may account for is taken off.
    package var ahead: Int64

    /// From the times between which the database answered with its own: microseconds since 1970-01-01 UTC.
    package init(asked: Int64, database: Int64, answered: Int64) {
        // The database said its time at some moment between the two.
        ahead = asked > database ? asked - database : min(answered - database, 0)
    }

    /// Whether it is too large to delete anything.
    package var isTooLarge: Bool { Duration.microseconds(ahead.magnitude) > Self.limit }

    /// In words: `this machine's clock is 30 d ahead of the database's`.
    package var description: String {
        let seconds = ahead.magnitude / 1_000_000
        let amount =
            seconds >= 172_800
            ? "\(seconds / 86_400) days" : seconds >= 7_200 ? "\(seconds / 3_600) hours" : "\(seconds / 60) minutes"
        return "this machine's clock is \(amount) \(ahead > 0 ? "ahead of" : "behind") the database's"
    }

    /// This process's clock: microseconds since 1970-01-01 UTC.
    package static func own() -> Int64 { Timestamp.now.microseconds }
}
