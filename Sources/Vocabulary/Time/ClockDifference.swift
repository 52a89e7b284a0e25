/// How far this process's clock is from the database's.
package struct ClockDifference: Sendable, Equatable {
    /// Beyond this much nobody knows which of the two is right.
    package static let limit = Duration.seconds(300)

    /// How much this process's clock is ahead; below zero where it is behind.
    ///
    /// What the question's way there and back may account for is taken off.
    package var ahead: Duration

    /// From the times between which the database answered with its own.
    package init(asked: Timestamp, database: Timestamp, answered: Timestamp) {
        // The database said its time at some moment between the two.
        ahead = asked > database ? asked - database : min(answered - database, .zero)
    }

    /// Whether it is worth telling: the clock of this machine, or of the database's, is not kept right.
    package var isNotable: Bool { max(ahead, .zero - ahead) > .seconds(60) }

    /// Whether it is too large to delete anything.
    package var isTooLarge: Bool { max(ahead, .zero - ahead) > Self.limit }

    /// In words: `this machine's clock is 30 d ahead of the database's`.
    package var description: String {
        let seconds = (max(ahead, .zero - ahead) + .milliseconds(500)).components.seconds
        let amount =
            switch seconds {
            case 172_800...: "\(seconds / 86_400) days"
            case 7_200...: "\(seconds / 3_600) hours"
            case 120...: "\(seconds / 60) minutes"
            default: "\(seconds) s"
            }
        return "this machine's clock is \(amount) \(ahead > .zero ? "ahead of" : "behind") the database's"
    }
}
