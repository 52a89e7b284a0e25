/// The difference between this process's clock and the database's.
package struct ClockDifference: Sendable, Equatable {
    /// Above this, either clock may be the wrong one.
    package static let limit = Duration.seconds(300)

    /// How far this process's clock is ahead, less the round trip's possible share; negative if it is behind.
    package var ahead: Duration

    /// Computed from the times at which the database was asked and had answered.
    package init(asked: Timestamp, database: Timestamp, answered: Timestamp) {
        // The database read its clock at some moment between the two.
        ahead = asked > database ? asked - database : min(answered - database, .zero)
    }

    /// Whether to report it: one of the two clocks is not synchronised.
    package var isNotable: Bool { max(ahead, .zero - ahead) > .seconds(60) }

    /// Whether it is too large to delete anything.
    package var isTooLarge: Bool { max(ahead, .zero - ahead) > Self.limit }

    /// The difference in words: `this machine's clock is 30 days ahead of the database's`.
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
