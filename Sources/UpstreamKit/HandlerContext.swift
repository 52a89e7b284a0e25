/// A delivery's data besides the message.
public struct HandlerContext: Sendable {
    /// The handler's registered name.
    public var handler: String

    /// The number of this attempt, from 1; one that a shutdown cut short does not count, so a number can come twice.
    public var attempt: Int

    /// The replay that sent the message again; nil for the original delivery.
    public var replayID: String?

    /// When the call times out: its task is cancelled, and the message is retried.
    public var deadline: ContinuousClock.Instant

    /// The header `traceparent` of W3C Trace Context to pass on with your requests; nil if tracing is off.
    public var traceparent: String?

    /// The header `tracestate` that belongs to ``traceparent``, if any.
    public var tracestate: String?

    /// A context with these values; by default of a first attempt that times out in 30 seconds.
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

    /// The time left for the call; zero once the deadline has passed.
    public var timeLeft: Duration { max(.zero, ContinuousClock.now.duration(to: deadline)) }
}
