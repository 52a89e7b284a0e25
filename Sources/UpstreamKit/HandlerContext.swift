/// What a handler knows about one delivery besides the message.
public struct HandlerContext: Sendable {
    /// The name the handler is registered under.
    public var handler: String

    /// Which try this is, from 1.
    ///
    /// It counts the tries that ended with a failure of the message's own; those cut short by a shutdown are not
    /// counted, so the same number can be seen twice.
    public var attempt: Int

    /// The replay that sent the message again, or nil for its first way to the handler.
    public var replayID: String?

    /// When the call is given up: its task is cancelled and the message is tried again later.
    public var deadline: ContinuousClock.Instant

    /// A context with these values.
    ///
    /// - Parameters:
    ///   - handler: The name the handler is registered under.
    ///   - attempt: Which try this is, from 1.
    ///   - replayID: The replay that sent the message again.
    ///   - deadline: When the call is given up; by default in 30 seconds.
    public init(
        handler: String,
        attempt: Int = 1,
        replayID: String? = nil,
        deadline: ContinuousClock.Instant = .now + .seconds(30)
    ) {
        self.handler = handler
        self.attempt = attempt
        self.replayID = replayID
        self.deadline = deadline
    }

    /// Whether a replay sent the message.
    public var isReplay: Bool { replayID != nil }

    /// How long the call may still take; zero once the deadline has passed.
    public var timeLeft: Duration { max(.zero, ContinuousClock.now.duration(to: deadline)) }
}
