package import Vocabulary

/// A replay as its row shows it.
package struct Replay: Sendable {
    package var id: Digest128
    package var name: String
    package var target: ReplayTarget
    package var pace: ReplayPace
    package var state: ReplayState
    package var selection: String
    /// The reason given by whoever planned it.
    package var reason: String?
    package var createdBy: String
    package var createdAt: Timestamp
    /// When its current run began.
    package var startedAt: Timestamp?
    package var finishedAt: Timestamp?
    /// How many deliveries or messages it holds.
    package var planned: Int64
    /// The span of its messages' `received_at`.
    package var span: ClosedRange<Timestamp>?
    /// How many of them, from the first on, are done.
    package var done: Int64
    package var skipped: Int64
    /// The length of the output file that belongs to what is done.
    package var bytes: Int64
    /// How often it was started from its first message.
    package var runs: Int64
    package var owner: String?
    /// When the lease ends unless it is renewed.
    package var leaseUntil: Timestamp?
    /// Whether the lease was valid when the row was read, by the database's clock.
    package var isHeld: Bool
    /// How long ago its current run began, by the database's clock.
    package var elapsed: Duration?
    package var lastError: String?
}

package struct ReplayPace: Sendable, Equatable, Codable {
    /// Maximum messages per second; nil for no limit.
    package var rate: Double?
    /// Original pacing, this many times as fast as the messages were received; nil for none.
    package var speed: Double?
    /// The maximum in flight: deliveries that wait for their handler, or unacked messages.
    package var concurrency: Int?

    package static let rates = 0.001...1e9
    package static let concurrencies = 1...100_000

    package init(rate: Double? = nil, speed: Double? = nil, concurrency: Int? = nil) {
        self.rate = rate
        self.speed = speed
        self.concurrency = concurrency
    }
}
