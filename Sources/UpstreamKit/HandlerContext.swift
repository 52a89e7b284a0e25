/// What a handler knows about one delivery besides the message.
public struct HandlerContext: Sendable {
    /// The name the handler is registered under.
    public var handler: String

    /// Which attempt this is, from 1.
    ///
    /// Only attempts that failed are counted. One that a shutdown cut short is not, so the same number can come twice.
    public var attempt: Int

    /// The replay that sent the message again; nil for the original delivery.
    public var replayID: String?

    /// When the call times out: its task is cancelled and the message is retried later.
    public var deadline: ContinuousClock.Instant

    /// The trace that the attempt belongs to, as the header `traceparent` of W3C Trace Context has it; nil where tracing is off.
    ///
    /// Pass it on with what you call.
    public var traceparent: String?

    /// The header `tracestate` that goes with ``traceparent``; nil without one.
    public var tracestate: String?

    /// A context with these values.
    ///
    /// - Parameters:
    ///   - handler: The name the handler is registered under.
    ///   - attempt: Which try this is, from 1.
    ///   - replayID: The replay that sent the message again.
    ///   - deadline: When the call times out; by default in 30 seconds.
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
